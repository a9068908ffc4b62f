//! AlterConfigs (all of a topic's settings at once) and IncrementalAlterConfigs (KIP-339).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::TopicId;
use cluster::{Command, ConfigChange, ConfigOp};
use protocol::error::ErrorCode;
use protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    alter_configs_request, alter_configs_response, incremental_alter_configs_request,
    incremental_alter_configs_response,
};
use protocol::wire::DecodeError;

use super::Call;
use super::describe_configs::{BROKER, TOPIC, unknown_resource};
use crate::context::{Context, refuse_internal};
use crate::errors::Failure;

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    use alter_configs_response::AlterConfigsResourceResponse;
    let request: AlterConfigsRequest<'_> = call.request()?;
    call.bound(request.resources.iter().map(|resource| 1 + resource.configs.len()).sum())?;
    let names: Vec<_> = request.resources.iter().map(|r| (r.resource_type, r.resource_name)).collect();
    let results =
        each(context, &names, request.validate_only, |index, id| replace(id, &request.resources[index])).await;
    let responses = names
        .iter()
        .zip(&results)
        .map(|(&(resource_type, resource_name), failure)| AlterConfigsResourceResponse {
            error_code: call.note(failure.as_ref().map_or(ErrorCode::NONE, |failure| failure.code)),
            error_message: failure.as_ref().and_then(|failure| failure.message.as_deref()),
            resource_type,
            resource_name,
        })
        .collect();
    Ok(call.respond(&AlterConfigsResponse { responses, ..Default::default() }))
}

pub(super) async fn answer_incremental(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    use incremental_alter_configs_response::AlterConfigsResourceResponse;
    let request: IncrementalAlterConfigsRequest<'_> = call.request()?;
    call.bound(request.resources.iter().map(|resource| 1 + resource.configs.len()).sum())?;
    let names: Vec<_> = request.resources.iter().map(|r| (r.resource_type, r.resource_name)).collect();
    let results = each(context, &names, request.validate_only, |index, id| change(id, &request.resources[index])).await;
    let responses = names
        .iter()
        .zip(&results)
        .map(|(&(resource_type, resource_name), failure)| AlterConfigsResourceResponse {
            error_code: call.note(failure.as_ref().map_or(ErrorCode::NONE, |failure| failure.code)),
            error_message: failure.as_ref().and_then(|failure| failure.message.as_deref()),
            resource_type,
            resource_name,
        })
        .collect();
    Ok(call.respond(&IncrementalAlterConfigsResponse { responses, ..Default::default() }))
}

/// Applies what `command` makes for each resource; what went wrong with it, if anything.
async fn each(
    context: &Context,
    names: &[(i8, &str)],
    validate_only: bool,
    command: impl Fn(usize, TopicId) -> Result<Command, Failure>,
) -> Vec<Option<Failure>> {
    let mut times = HashMap::<(i8, &str), usize>::new();
    for name in names {
        *times.entry(*name).or_default() += 1;
    }
    let mut results = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let result = async {
            if times[name] > 1 {
                return Err(Failure::new(ErrorCode::INVALID_REQUEST, "the resource is named twice"));
            }
            let command = command(index, topic_of(context, *name)?)?;
            if validate_only {
                return Ok(context.store.check(&command)?);
            }
            context.change(command, context.settings.apply_bound).await.map(|_| ())
        };
        results.push(result.await.err());
    }
    results
}

fn topic_of(context: &Context, (kind, name): (i8, &str)) -> Result<TopicId, Failure> {
    match kind {
        TOPIC => {
            cluster::name::check(name)
                .map_err(|error| Failure::new(ErrorCode::INVALID_TOPIC_EXCEPTION, error.rule()))?;
            let unknown = || Failure::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "there is no topic of this name");
            let topic = context.store.topic(name).ok_or_else(unknown)?;
            refuse_internal(name)?;
            Ok(topic.id)
        }
        BROKER => {
            let node = context.store.image().broker.0;
            if !name.is_empty() && name != node.to_string() {
                return Err(Failure::new(ErrorCode::INVALID_REQUEST, format!("this is broker {node}, not {name:?}")));
            }
            let why =
                "a broker's settings are read from its configuration file at start and cannot change while it runs";
            Err(Failure::new(ErrorCode::INVALID_CONFIG, why))
        }
        other => Err(unknown_resource(other)),
    }
}

/// Kafka refuses a request that is not well-formed before it looks at any setting: a name given twice, a value that is missing.
fn well_formed<'a>(configs: impl Iterator<Item = (&'a str, bool)>) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    for (name, is_null) in configs {
        if !seen.insert(name) {
            return Err(Failure::new(ErrorCode::INVALID_REQUEST, format!("{name}: it is given twice")));
        }
        if is_null {
            return Err(Failure::new(ErrorCode::INVALID_REQUEST, format!("{name}: a value is needed")));
        }
    }
    Ok(())
}

fn replace(id: TopicId, resource: &alter_configs_request::AlterConfigsResource<'_>) -> Result<Command, Failure> {
    well_formed(resource.configs.iter().map(|config| (config.name, config.value.is_none())))?;
    let configs =
        resource.configs.iter().filter_map(|config| Some((config.name.into(), config.value?.into()))).collect();
    Ok(Command::SetConfigs { id, configs })
}

fn change(
    id: TopicId,
    resource: &incremental_alter_configs_request::AlterConfigsResource<'_>,
) -> Result<Command, Failure> {
    const DELETE: i8 = 1;
    well_formed(resource.configs.iter().map(|c| (c.name, c.value.is_none() && c.config_operation != DELETE)))?;
    let mut changes = Vec::with_capacity(resource.configs.len());
    for config in &resource.configs {
        let op = match config.config_operation {
            0 => ConfigOp::Set,
            // What does not exist is deleted already, as with Kafka: a tool takes back settings of other versions.
            DELETE if cluster::config::find(config.name).is_none() => continue,
            DELETE => ConfigOp::Delete,
            2 => ConfigOp::Append,
            3 => ConfigOp::Subtract,
            other => {
                return Err(Failure::new(ErrorCode::INVALID_REQUEST, format!("there is no operation {other}")));
            }
        };
        changes.push(ConfigChange { name: config.name.into(), op, value: config.value.map(Into::into) });
    }
    Ok(Command::AlterConfigs { id, changes })
}
