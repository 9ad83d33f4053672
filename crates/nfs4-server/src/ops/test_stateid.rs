//! TEST_STATEID (RFC 8881, section 18.48).

use nfs4::{NfsStat4, TestStateidArgs, TestStateidResOk};

use crate::compound::Compound;

pub(crate) async fn test_stateid(
    compound: &mut Compound<'_>,
    args: TestStateidArgs,
) -> Result<TestStateidResOk, NfsStat4> {
    let session = compound.session()?;
    let service = compound.service;
    // One at a time, because others would wait for the tables during a long list.
    let check = |stateid| service.state().test_stateid(session.client, stateid);
    Ok(TestStateidResOk {
        status_codes: args.stateids.iter().map(check).collect(),
    })
}
