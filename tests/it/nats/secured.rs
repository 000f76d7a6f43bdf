//! The server's side of trust: TLS with an authority of one's own, nkeys. The wrong ones are refused with words.

use std::path::Path;
use std::process::Command;

use proto::message::MessageState;
use tests::nats::Server;
use tests::wait::until_within;

use super::hosts::{Host, RECOVERY_LIMIT, introduce};

/// A pair of an nkey, made with the seed and key of the NATS documentation's form.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

fn openssl(folder: &Path, script: &str) {
    let ran = Command::new("/bin/sh").args(["-ec", script]).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

fn authority(folder: &Path) {
    openssl(
        folder,
        "new() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $1.key -out $1.crt \
         -days 2 -subj /CN=$1 -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign; }
         new ca; new other
         openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout srv.key -out srv.csr -subj /CN=localhost
         printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth\\nbasicConstraints=CA:FALSE' >ext
         openssl x509 -req -in srv.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out srv.crt -extfile ext",
    );
}

#[test]
fn m7_tls_with_an_own_authority_and_nkeys() {
    let folder = tempfile::Builder::new().prefix("cn.").tempdir_in("/tmp").unwrap();
    authority(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\nauthorization {{ users: [ {{ nkey: {PUBLIC} }} ] }}",
        at("srv.crt"),
        at("srv.key"),
    );
    let server = Server::start_with(&folder.path().join("server"), &[], "127.0.0.1", &config);
    let url = server.url().replace("nats:", "tls:");
    let seed = at("seed");
    std::fs::write(&seed, SEED).unwrap();
    let (mut a, mut b) = (Host::start(&[]), Host::start(&[]));
    let open = a.daemon.coordctl(&["bridge", "add", &url, "--nkey-file", &seed]);
    assert!(open.code == 1 && open.stderr.contains("chmod"), "{open:?}");
    std::fs::set_permissions(&seed, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();

    let trouble = |host: &mut Host, want: &str| {
        until_within(RECOVERY_LIMIT, want, || {
            let bridge = host.status();
            (!bridge.connected && bridge.trouble.contains(want)).then_some(())
        });
    };
    a.join_with(&[&url, "--ca", &at("other.crt"), "--nkey-file", &seed]);
    trouble(&mut a, "check --ca");
    a.join_with(&[&url, "--ca", &at("ca.crt")]);
    trouble(&mut a, "refuses the credentials");
    a.join_with(&[&url, "--ca", &at("ca.crt"), "--nkey-file", &seed]);
    b.join_with(&[&url, "--ca", &at("ca.crt"), "--nkey-file", &seed]);
    introduce(&mut a, &mut b);
    let to_b = a.address();
    let id = a.send(&to_b, "over TLS");
    assert!(b.read_one().text.contains("over TLS"));
    a.wait_for(&id, MessageState::Consumed);
}
