//! x
use protocol::api::ApiKey;
/// x
pub const fn spoken(key: ApiKey) -> (i16, i16) { match key { ApiKey::Fetch => (4, 12), ApiKey::Metadata => (1, 13), ApiKey::Produce => (3, 12), _ => (0, 5) } }
