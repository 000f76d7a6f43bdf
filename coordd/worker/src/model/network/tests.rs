//! The session's proxy and roots, in every spelling, against a proxy and a TLS server of the test's own.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::super::retry::{POLICY, Policy};
use super::super::{Block, Client, ModelChoice, Provider, Request, Role, ToolChoice, Turn};
use super::*;

/// A root, and a certificate of `localhost` by it, until 2126.
const ROOT: &str = include_str!("tests/root.pem");
const CHAIN: &str = include_str!("tests/localhost.pem");
const KEY: &str = include_str!("tests/localhost.key");

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

type Vars = BTreeMap<String, String>;

fn vars(pairs: &[(&str, &str)]) -> Vars {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn ask(base_url: &str, vars: &Vars) -> Result<String, ModelError> {
    let choice = ModelChoice {
        provider: Provider::OpenAi,
        model: "m".into(),
        base_url: Some(base_url.to_owned()),
        rehearsal_file: None,
    };
    let with_key = |name: &str| match name {
        "OPENAI_API_KEY" => Some("sk-secret-1".to_owned()),
        name => vars.get(name).cloned(),
    };
    let mut client = Client::new(&choice, &with_key)?;
    client.policy = Policy { first_ms: 1, cap_ms: 1, unreachable_tries_max: 1, ..POLICY };
    let request = Request {
        system: Vec::new(),
        turns: vec![Turn { role: Role::User, blocks: vec![Block::Text { text: "Hi".into() }] }],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 10,
    };
    let answer = client.answer(&request, &mut |_| {}).await?;
    Ok(format!("{:?}", answer.blocks))
}

/// Answers one connection, and gives its head.
async fn head_of(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A listener that answers one request with these bytes; its address, and what it was told.
async fn listener(reply: &'static str) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let told = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = head_of(&mut stream).await;
        stream.write_all(reply.as_bytes()).await.unwrap();
        stream.shutdown().await.ok();
        head
    });
    (address, told)
}

/// fM1: the model is asked through the proxy, however it is spelled.
#[tokio::test]
async fn fm1_a_proxy_in_any_spelling_is_asked() {
    for (name, before, with_user) in [
        ("HTTP_PROXY", "http://", false),
        ("http_proxy", "http://", false),
        ("ALL_PROXY", "http://", false),
        ("all_proxy", "http://", false),
        ("HTTP_PROXY", "", false),
        ("HTTP_PROXY", "http://ada:p%40ss@", true),
    ] {
        let (address, told) = listener(ANSWER).await;
        let vars = vars(&[(name, &format!("{before}{address}")), ("NO_PROXY", "other.example")]);
        let answer = ask("http://model.example:8000/v1", &vars).await.unwrap();
        assert!(answer.contains("Hello."), "{name}");
        let head = told.await.unwrap().to_lowercase();
        let first = "post http://model.example:8000/v1/chat/completions http/1.1";
        assert!(head.starts_with(first), "{name}: {head}");
        // ada:p@ss
        assert_eq!(head.contains("proxy-authorization: basic ywrhonbac3m="), with_user, "{head}");
    }
}

/// fM1: TLS goes through a tunnel; a refusal names the proxy, its variable, and no password.
#[tokio::test]
async fn fm1_a_tunnel_is_asked_for_and_its_refusal_names_the_proxy() {
    for (reply, expected) in [
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "through the proxy http://127.0.0.1"),
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "authorization required"),
    ] {
        let (address, told) = listener(reply).await;
        let vars = vars(&[("HTTPS_PROXY", &format!("http://ada:hunter22@{address}"))]);
        let error = ask("https://model.example/v1", &vars).await.unwrap_err();
        let message = coordd_common::chain(&error);
        assert!(message.contains(expected) && message.contains("HTTPS_PROXY"), "{message}");
        assert!(!message.contains("hunter22") && !format!("{error:?}").contains("hunter22"));
        let head = told.await.unwrap();
        assert!(head.starts_with("CONNECT model.example:443 HTTP/1.1"), "{head}");
        assert!(!head.contains("sk-secret-1"), "{head}");
    }
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let vars = vars(&[("all_proxy", &format!("http://{address}"))]);
    let message = ask("https://model.example/v1", &vars).await.unwrap_err().to_string();
    assert!(message.contains("through the proxy") && message.contains("all_proxy"), "{message}");
}

/// fM1: what is listed is asked without the proxy, and so is this machine.
#[tokio::test]
async fn fm1_what_needs_no_proxy_is_asked_directly() {
    let url = |text: &str| Url::parse(text).unwrap();
    let proxied = |list: &str, address: &str| {
        let vars = vars(&[("HTTP_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", list)]);
        let through = proxy_for(&url(address), &|name| vars.get(name).cloned()).unwrap();
        through.map(|through| through.direct.unwrap_or_default())
    };
    assert_eq!(proxied("*", "http://m.example/"), None);
    assert_eq!(proxied("a.example, *", "http://m.example/"), None);
    assert_eq!(
        proxied("m.example:80,.b.example", "http://m.example/"),
        Some("m.example,.b.example".into())
    );
    assert_eq!(proxied("m.example:81", "http://m.example/"), Some(String::new()));
    assert_eq!(proxied("*.b.example ::1", "http://m.example/"), Some(".b.example,::1".into()));

    let (address, told) = listener(ANSWER).await;
    let vars = vars(&[("HTTP_PROXY", "http://127.0.0.1:1"), ("ALL_PROXY", "http://127.0.0.1:1")]);
    let answer = ask(&format!("http://{address}/v1"), &vars).await.unwrap();
    assert!(answer.contains("Hello."));
    assert!(told.await.unwrap().starts_with("POST /v1/chat/completions"));
}

#[tokio::test]
async fn fm1_a_bad_proxy_is_named_without_its_password() {
    for bad in ["ftp://u:hunter22@p", "http://u:hunter22@[p", "http://"] {
        let vars = vars(&[("HTTPS_PROXY", bad)]);
        let error = ask("https://model.example/v1", &vars).await.unwrap_err();
        let message = coordd_common::chain(&error);
        assert!(message.contains("HTTPS_PROXY") && !message.contains("hunter22"), "{message}");
    }
}

/// A server with a certificate that no system trusts.
async fn tls_server() -> String {
    rustls::crypto::ring::default_provider().install_default().ok();
    let chain = CertificateDer::pem_slice_iter(CHAIN.as_bytes()).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut bytes = Vec::new();
            while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
                if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            stream.write_all(ANSWER.as_bytes()).await.ok();
            stream.shutdown().await.ok();
        }
    });
    format!("https://localhost:{port}/v1")
}

/// fM1: the roots of the session count, in each variable that names some.
#[tokio::test]
async fn fm1_the_roots_of_the_session_are_trusted() {
    let base_url = tls_server().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("root.pem");
    std::fs::write(&file, ROOT).unwrap();
    let (file, dir) = (file.display().to_string(), folder.path().display().to_string());
    for (name, value) in
        [("SSL_CERT_FILE", &file), ("SSL_CERT_DIR", &dir), ("NODE_EXTRA_CA_CERTS", &file)]
    {
        let answer = ask(&base_url, &vars(&[(name, value)])).await;
        assert!(answer.as_ref().is_ok_and(|it| it.contains("Hello.")), "{name}: {answer:?}");
    }
    let message = coordd_common::chain(&ask(&base_url, &vars(&[])).await.unwrap_err());
    assert!(message.contains("certificate"), "{message}");
}

#[tokio::test]
async fn fm1_roots_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    let missing = folder.path().join("missing.pem");
    for path in [&empty, &missing] {
        for name in ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"] {
            let vars = vars(&[(name, &path.display().to_string())]);
            let error = ask("https://model.example/v1", &vars).await.unwrap_err();
            let message = error.to_string();
            assert!(message.contains(name), "{message}");
            assert!(message.contains(&path.display().to_string()), "{message}");
        }
    }
}
