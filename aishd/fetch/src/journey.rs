//! From an address to a page: each redirect is a connection of its own, which the proxy judges anew.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use hyper::{Response, StatusCode};
use tokio::time::timeout;
use url::Url;

use crate::address::{authority, redirected};
use crate::body::{self, BodyCoding, ReadBody};
use crate::connection::get;
use crate::content_kind::{ContentKind, MediaType};
use crate::failure::FetchFailure;
use crate::limits::{FetchLimits, MOST_REDIRECTS};
use crate::request::FetchRequest;

/// What was found at the end.
#[derive(Debug)]
pub(crate) struct FoundPage {
    /// Where it is.
    pub(crate) url: Url,
    /// Where it was looked for before that.
    pub(crate) redirects: u32,
    pub(crate) status: StatusCode,
    pub(crate) media_type: MediaType,
    /// As its server says.
    pub(crate) length: Option<u64>,
    /// `None`: it is no text, and was not read.
    pub(crate) body: Option<ReadBody>,
}

pub(crate) async fn find(
    request: &FetchRequest,
    limits: FetchLimits,
) -> Result<FoundPage, FetchFailure> {
    let answer_within = limits.answer + Duration::from_millis(request.host_wait_ms);
    let mut url = request.call.url.clone();
    for redirects in 0..=MOST_REDIRECTS {
        let asked = get(&url, request.proxy, &request.user_agent);
        let answer = timeout(answer_within, asked).await;
        let answer = answer.map_err(|_elapsed| FetchFailure::NoAnswer {
            host: authority(&url),
            seconds: answer_within.as_secs(),
        })??;
        match leads_to(&url, &answer)? {
            Some(next) => url = next,
            None => return found(url, redirects, answer, limits).await,
        }
    }
    Err(FetchFailure::TooManyRedirects(MOST_REDIRECTS))
}

fn leads_to(url: &Url, answer: &Response<Incoming>) -> Result<Option<Url>, FetchFailure> {
    let is_redirect = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = answer.headers().get(LOCATION).filter(|_| is_redirect);
    let Some(location) = location else {
        return Ok(None);
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    redirected(url, &location).map(Some)
}

async fn found(
    url: Url,
    redirects: u32,
    answer: Response<Incoming>,
    limits: FetchLimits,
) -> Result<FoundPage, FetchFailure> {
    let header = |name| answer.headers().get(name).and_then(|it| it.to_str().ok());
    let media_type = MediaType::read(header(CONTENT_TYPE).unwrap_or_default());
    let length = header(CONTENT_LENGTH).and_then(|it| it.parse().ok());
    let status = answer.status();
    let codings = answer.headers().get_all(CONTENT_ENCODING);
    let codings: Vec<String> = codings
        .iter()
        .map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned())
        .collect();
    let body = if media_type.kind() == ContentKind::Other {
        None
    } else {
        let packing = BodyCoding::of(codings.iter().map(String::as_str))?;
        Some(body::read(answer.into_body(), packing, &authority(&url), limits).await?)
    };
    Ok(FoundPage {
        url,
        redirects,
        status,
        media_type,
        length,
        body,
    })
}
