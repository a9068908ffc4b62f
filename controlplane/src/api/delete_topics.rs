//! DeleteTopics, by name or by id (KIP-516).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::TopicId;
use cluster::{Answer, Command};
use protocol::error::ErrorCode;
use protocol::messages::delete_topics_request::DeleteTopicState;
use protocol::messages::delete_topics_response::DeletableTopicResult;
use protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use protocol::wire::DecodeError;
use tokio::task::JoinSet;

use super::Call;
use crate::context::Context;
use crate::errors::Failure;

/// How a client names a topic.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Named<'a> {
    Name(&'a str),
    Id(TopicId),
    Both(&'a str, TopicId),
    Neither,
}

/// Name and id of a topic that was deleted, where there was one.
type Deleted = Result<Option<(Arc<str>, TopicId)>, Failure>;

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: DeleteTopicsRequest<'_> = call.request()?;
    let named: Vec<Named<'_>> = if call.version() < 6 {
        request.topic_names.iter().copied().map(Named::Name).collect()
    } else {
        request.topics.iter().map(Named::of).collect()
    };
    call.bound(named.len())?;
    let bound = context.apply_bound(request.timeout_ms);
    let mut times = HashMap::<Named<'_>, usize>::new();
    for one in &named {
        *times.entry(*one).or_default() += 1;
    }
    let mut results: Vec<Deleted> = Vec::with_capacity(named.len());
    let mut tasks = JoinSet::new();
    for (index, one) in named.iter().enumerate() {
        results.push(match find(context, *one) {
            _ if times[one] > 1 && !matches!(one, Named::Both(..) | Named::Neither) => {
                Err(Failure::new(ErrorCode::INVALID_REQUEST, "the topic is named twice"))
            }
            Ok(id) => {
                let context = context.clone();
                tasks.spawn(async move { (index, delete(&context, id, bound).await.map(|name| (name, id))) });
                Err(ErrorCode::UNKNOWN_SERVER_ERROR.into())
            }
            Err(failure) => Err(failure),
        });
    }
    while let Some(Ok((index, result))) = tasks.join_next().await {
        results[index] = result.map(Some);
    }
    let responses = named.iter().zip(&results).map(|(named, result)| respond(call, *named, result)).collect();
    Ok(call.respond(&DeleteTopicsResponse { responses, ..Default::default() }))
}

impl<'a> Named<'a> {
    fn of(topic: &DeleteTopicState<'a>) -> Self {
        match topic.name {
            Some(name) if topic.topic_id != TopicId::ZERO => Self::Both(name, topic.topic_id),
            Some(name) => Self::Name(name),
            None if topic.topic_id == TopicId::ZERO => Self::Neither,
            None => Self::Id(topic.topic_id),
        }
    }
}

fn find(context: &Context, named: Named<'_>) -> Result<TopicId, Failure> {
    match named {
        Named::Both(..) => Err(Failure::new(ErrorCode::INVALID_REQUEST, "a topic is named by its name or by its id")),
        Named::Name(name) => {
            let unknown = || Failure::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "there is no topic of this name");
            Ok(context.store.topic(name).ok_or_else(unknown)?.id)
        }
        Named::Neither => Err(Failure::new(ErrorCode::INVALID_REQUEST, "a topic is named by its name or by its id")),
        Named::Id(id) => {
            let unknown = || Failure::new(ErrorCode::UNKNOWN_TOPIC_ID, "there is no topic of this id");
            Ok(context.store.topic_by_id(id).ok_or_else(unknown)?.id)
        }
    }
}

async fn delete(context: &Context, id: TopicId, bound: Duration) -> Result<Arc<str>, Failure> {
    match context.change(Command::DeleteTopic { id }, bound).await? {
        Answer::Topic(topic) => Ok(topic.name.clone()),
        _ => unreachable!("the state answers with the topic"),
    }
}

fn respond<'a>(call: &Call<'_>, named: Named<'a>, result: &'a Deleted) -> DeletableTopicResult<'a> {
    let (given, topic_id) = match named {
        Named::Name(name) => (Some(name), TopicId::ZERO),
        Named::Id(id) => (None, id),
        Named::Both(name, id) => (Some(name), id),
        Named::Neither => (None, TopicId::ZERO),
    };
    match result {
        Ok(deleted) => DeletableTopicResult {
            name: deleted.as_ref().map(|(name, _)| &**name).or(given),
            topic_id: deleted.as_ref().map_or(topic_id, |(_, id)| *id),
            ..Default::default()
        },
        Err(failure) => DeletableTopicResult {
            // Only version 6 and up know a result without a name.
            name: given.or((call.version() < 6).then_some("")),
            topic_id,
            error_code: call.note(failure.code),
            error_message: failure.message.as_deref(),
        },
    }
}
