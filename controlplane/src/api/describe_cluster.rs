//! DescribeCluster (KIP-700): who is there.

use protocol::error::ErrorCode;
use protocol::messages::describe_cluster_response::DescribeClusterBroker;
use protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};
use protocol::wire::DecodeError;

use super::{CLUSTER_OPERATIONS, Call, NO_OPERATIONS, id_text};
use crate::context::{Context, ImageExt as _};

/// `EndpointType.BROKER`.
const BROKERS: i8 = 1;
/// `EndpointType.CONTROLLER`.
const CONTROLLERS: i8 = 2;

pub(super) fn answer(context: &Context, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: DescribeClusterRequest = call.request()?;
    let image = context.store.image();
    let address = image.address(call.listener);
    let node = image.node().0;
    let cluster_id = id_text(image.cluster.0);
    let (error_code, error_message) = match request.endpoint_type {
        BROKERS => (ErrorCode::NONE, None),
        CONTROLLERS => (ErrorCode::MISMATCHED_ENDPOINT_TYPE, Some("this is a broker's listener, not a controller's")),
        _ => (ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, Some("endpoints are brokers (1) or controllers (2)")),
    };
    let mut response = DescribeClusterResponse {
        error_code: call.note(error_code),
        error_message,
        // What this listener's endpoints are, whatever was asked for.
        endpoint_type: BROKERS,
        cluster_authorized_operations: NO_OPERATIONS,
        ..Default::default()
    };
    if error_code.is_ok() {
        response.cluster_id = &cluster_id;
        response.controller_id = node;
        response.brokers = vec![DescribeClusterBroker {
            broker_id: node,
            host: &address.host,
            port: address.port.into(),
            rack: None,
            is_fenced: false,
        }];
        if request.include_cluster_authorized_operations {
            response.cluster_authorized_operations = CLUSTER_OPERATIONS;
        }
    }
    Ok(call.respond(&response))
}
