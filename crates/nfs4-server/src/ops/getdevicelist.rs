//! GETDEVICELIST: the devices of a file system (RFC 8881, section 18.41).

use nfs4::{
    Deviceid4, GetdevicelistArgs, GetdevicelistResOk, LAYOUTS_MAX, NfsStat4, Verifier4, layout_type,
};

use crate::compound::Compound;

pub(crate) async fn getdevicelist(
    compound: &Compound<'_>,
    args: GetdevicelistArgs,
) -> Result<GetdevicelistResOk, NfsStat4> {
    let object = compound.current_object(NfsStat4::UnknownLayoutType)?;
    let layouts = object.export.layouts.as_ref();
    let layouts = layouts.filter(|_| args.layout_type == layout_type::NFSV4_1_FILES);
    let layouts = layouts.ok_or(NfsStat4::UnknownLayoutType)?;
    let mut devices = layouts.devices().await;
    devices.sort();
    let mut hasher = blake3::Hasher::new();
    devices.iter().for_each(|device| {
        hasher.update(&device.0);
    });
    let mut verifier = [0; 8];
    hasher.finalize_xof().fill(&mut verifier);
    if args.maxdevices == 0 {
        return Err(NfsStat4::Inval);
    }
    // The cookie is a count of devices, which is valid while the devices stay the same.
    if args.cookie != 0 && args.cookieverf != Verifier4(verifier) {
        return Err(NfsStat4::NotSame);
    }
    let begin = usize::try_from(args.cookie).unwrap_or(usize::MAX);
    let rest = devices.get(begin..).ok_or(NfsStat4::BadCookie)?;
    let page = rest.len().min(args.maxdevices as usize).min(LAYOUTS_MAX);
    Ok(GetdevicelistResOk {
        cookie: (begin + page) as u64,
        cookieverf: Verifier4(verifier),
        deviceid_list: rest[..page].iter().map(|one| Deviceid4(one.0)).collect(),
        eof: page == rest.len(),
    })
}
