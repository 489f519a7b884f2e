//! What a client hears of a call while it runs: how far it is, and lines of its server's log, if it wants either.

use aish_proto::event::ToolProgress;
use serde_json::{Value, json};

use super::message::notification;
use super::stdout_lines::GatewayOutlet;

/// So much more is said to be done where something is told that is no step forward: the value has to grow each time.
const NO_STEP: f64 = 0.001;
/// From the least to the worst.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// How bad a line is; `None` where the word is none of the protocol's.
pub(super) fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|it| *it == name)
}

#[derive(Debug)]
pub(super) struct ProgressNotifications {
    out: GatewayOutlet,
    /// Absent: it does not want to hear how far the call is.
    token: Option<Value>,
    /// Absent: it wants no lines.
    least: Option<usize>,
    last: Option<f64>,
}

impl ProgressNotifications {
    pub(super) fn new(out: GatewayOutlet, token: Option<Value>, least: Option<usize>) -> Self {
        let token = token.filter(|it| it.is_string() || it.is_number());
        Self {
            out,
            token,
            least,
            last: None,
        }
    }

    /// Tells that it still runs, and why it is no further.
    pub(super) async fn note(&mut self, message: &str) {
        self.step(None, None, Some(message)).await;
    }

    pub(super) async fn on_progress(&mut self, said: &ToolProgress) {
        let Some(name) = &said.level else {
            let message = said.message.as_deref();
            self.step(said.progress, said.total, message).await;
            return;
        };
        let loud = level(name)
            .zip(self.least)
            .filter(|(it, least)| it >= least);
        if loud.is_some() {
            let mut params = json!({"level": name, "data": said.message});
            if let Some(logger) = &said.logger {
                params["logger"] = json!(logger);
            }
            self.out
                .write(&notification("notifications/message", &params))
                .await;
        }
    }

    async fn step(&mut self, progress: Option<f64>, total: Option<f64>, message: Option<&str>) {
        let Some(token) = &self.token else { return };
        let least = self.last.map_or(0.0, |it| it + NO_STEP);
        let progress = progress.filter(|it| *it >= least).unwrap_or(least);
        self.last = Some(progress);
        let mut params = json!({"progressToken": token, "progress": progress});
        if let Some(total) = total {
            params["total"] = json!(total);
        }
        if let Some(message) = message {
            params["message"] = json!(message);
        }
        self.out
            .write(&notification("notifications/progress", &params))
            .await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::stdout_lines::OutletMessage;
    use super::*;

    #[tokio::test]
    async fn progress_only_grows_and_lines_are_told_from_a_level_on() {
        let (out, mut said) = GatewayOutlet::new();
        let mut telling = ProgressNotifications::new(out, Some(json!("t")), level("warning"));
        let progress = |progress: f64| ToolProgress {
            call: String::new(),
            name: String::new(),
            progress: Some(progress),
            total: None,
            message: None,
            level: None,
            logger: None,
        };
        let line = |level: &str| ToolProgress {
            progress: None,
            level: Some(level.to_owned()),
            message: Some(level.to_owned()),
            ..progress(0.0)
        };
        telling.note("waits").await;
        for it in [3.0, 3.0, 1.0, 4.0] {
            telling.on_progress(&progress(it)).await;
        }
        for it in ["info", "error", "nonsense"] {
            telling.on_progress(&line(it)).await;
        }
        drop(telling);
        let mut values = vec![];
        while let Some(OutletMessage::Line(it)) = said.recv().await {
            let it: Value = serde_json::from_str(&it).unwrap();
            let params = &it["params"];
            values.push(params["progress"].as_f64().map_or_else(
                || params["data"].as_str().unwrap().to_owned(),
                |it| it.to_string(),
            ));
        }
        assert_eq!(vec!["0", "3", "3.001", "3.002", "4", "error"], values);
    }
}
