//! Versions, the cluster, coordinators' neighbours: what is asked of a broker as a whole.

use serde_json::json;

use crate::run::{Run, info, version, versions};

pub(super) fn before_topics(run: &mut Run) {
    api_versions(run);
    describe_cluster(run);
}

fn api_versions(run: &mut Run) {
    for v in versions("ApiVersions") {
        let named = |name: &str, version: &str| json!({"client_software_name": name, "client_software_version": version, "cluster_id": null, "node_id": -1});
        run.ask("ApiVersions", v, "normal", named("golden", "1.0"));
        if v >= 3 {
            run.ask("ApiVersions", v, "no name", named("", "1.0"));
            run.ask("ApiVersions", v, "a name of illegal characters", named("gold en", "1.0"));
            run.ask("ApiVersions", v, "a version of illegal characters", named("golden", "1.0-"));
        }
        if v >= 5 {
            let elsewhere = |cluster: &str, node: i32| json!({"client_software_name": "golden", "client_software_version": "1", "cluster_id": cluster, "node_id": node});
            run.ask("ApiVersions", v, "another cluster", elsewhere("AAAAAAAAAAAAAAAAAAAAAA", -1));
            run.ask("ApiVersions", v, "another cluster and node", elsewhere("AAAAAAAAAAAAAAAAAAAAAA", 9));
        }
    }
}

fn describe_cluster(run: &mut Run) {
    for v in versions("DescribeCluster") {
        let of = |endpoint: i8, operations: bool, fenced: bool| {
            json!({"include_cluster_authorized_operations": operations, "endpoint_type": endpoint,
                "include_fenced_brokers": fenced})
        };
        let answer = run.ask("DescribeCluster", v, "brokers", of(1, false, false));
        run.learn("cluster_id", "the cluster", &answer["cluster_id"]);
        run.ask("DescribeCluster", v, "with operations", of(1, true, false));
        if v >= 1 {
            run.ask("DescribeCluster", v, "controllers", of(2, false, false));
            run.ask("DescribeCluster", v, "endpoints of an unknown kind", of(9, false, false));
        }
        if v >= 2 {
            run.ask("DescribeCluster", v, "fenced ones, too", of(1, false, true));
        }
    }
}

pub(super) fn log_dirs(run: &mut Run) {
    for v in versions("DescribeLogDirs") {
        let of = |topic: &str, partitions: &[i32]| json!({"topics": [{"topic": topic, "partitions": partitions}]});
        run.ask("DescribeLogDirs", v, "one partition", of("orders", &[1]));
        run.ask("DescribeLogDirs", v, "an unknown topic", of(super::NOWHERE, &[0]));
        run.ask("DescribeLogDirs", v, "an unknown partition", of("orders", &[77]));
        run.ask("DescribeLogDirs", v, "no topic", json!({"topics": []}));
    }
}

pub(super) fn acls(run: &mut Run) {
    for v in versions("DescribeAcls") {
        let filter = json!({"resource_type_filter": 1, "resource_name_filter": null, "pattern_type_filter": 1,
            "principal_filter": null, "host_filter": null, "operation": 1, "permission_type": 1});
        run.ask("DescribeAcls", v, "any", filter.clone());
        run.ask("DeleteAcls", v, "any", json!({"filters": [filter]}));
        run.ask("DeleteAcls", v, "none", json!({"filters": []}));
        let creation = json!({"resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3,
            "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3});
        run.ask("CreateAcls", v, "one", json!({"creations": [creation]}));
        run.ask("CreateAcls", v, "two", json!({"creations": [creation, creation]}));
    }
}

/// Versions and keys that are not served, and bodies that do not decode.
pub(super) fn unsupported(run: &mut Run) {
    // ApiVersions of the future is answered in version 0 (KIP-511), and the connection stays.
    run.raw("ApiVersions", 18, 99, true, "a version of the future", &[0; 9]);
    run.ask("ApiVersions", version("ApiVersions", 0), "after a version of the future", json!({}));
    for (name, past, body) in [("Fetch", 3, 30), ("Metadata", 99, 9), ("CreateTopics", 1, 20), ("JoinGroup", 99, 9)] {
        run.raw(name, info(name).key as i16, past, past > 50, "not served", &vec![0; body]);
    }
    // acks=1, a timeout, no topics; an old client looks for it (KAFKA-18659).
    run.raw("Produce", 0, 2, false, "not served", &[0, 1, 0, 0, 0, 9, 0, 0, 0, 0]);
    run.raw("Unknown", 999, 0, false, "no such API", &[0; 8]);
    run.raw("LeaderAndIsr", 4, 0, false, "an API that is gone", &[0; 8]);
    // An array that promises more than there is.
    run.raw("Metadata", 3, 1, false, "a count beyond the end", &[0x7f, 0xff, 0xff, 0xff]);
    run.raw("Metadata", 3, 1, false, "nothing at all", &[]);
    run.raw("ListOffsets", 2, 1, false, "cut off", &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 9, b'a']);
    // One byte more than the message has.
    run.raw("Metadata", 3, 1, false, "a byte too many", &[0, 0, 0, 0, 7]);
}
