//! Which tools a request offered.

use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Offer {
    tools: Vec<OfferedTool>,
}

#[derive(Deserialize)]
struct OfferedTool {
    function: OfferedFunction,
}

#[derive(Deserialize)]
struct OfferedFunction {
    name: String,
}

/// The names in the body of a request; none of what is no such body.
pub(crate) fn names(body: &[u8]) -> Vec<String> {
    let offer: Offer = serde_json::from_slice(body).unwrap_or_default();
    offer.tools.into_iter().map(|it| it.function.name).collect()
}
