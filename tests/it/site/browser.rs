//! A headless Chromium with one page, driven by its own protocol (Chrome DevTools) over a web socket.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// Whatever takes longer than this does not come any more.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Browser {
    program: Child,
    socket: WebSocket<TcpStream>,
    session: Option<String>,
    calls: u64,
    /// What happened meanwhile: method and parameters.
    events: Vec<(String, Value)>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// `None` where there is no Chromium on the search path.
    pub(super) fn start() -> Option<Self> {
        let profile = tempfile::tempdir().unwrap();
        let mut program = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-extensions", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("DevTools listening on ").map(str::to_owned));
        let address = address.expect("Chromium says where it listens");
        // It goes on writing there; a closed or full pipe would end it.
        std::thread::spawn(move || lines.for_each(drop));
        let host = address.trim_start_matches("ws://").split('/').next().unwrap().to_owned();
        let stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = tungstenite::client(&address, stream).unwrap();
        let mut browser = Self { program, socket, session: None, calls: 0, events: Vec::new(), _profile: profile };
        browser.open_page();
        Some(browser)
    }

    fn open_page(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let session = self.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
        self.call("Performance.enable", &json!({ "timeDomain": "threadTicks" }));
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        loop {
            let message = self.receive();
            if message["id"] == json!(self.calls) {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    /// The next message; events are kept.
    fn receive(&mut self) -> Value {
        loop {
            let Message::Text(text) = self.socket.read().expect("Chromium answers") else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            if let Some(method) = message["method"].as_str() {
                self.events.push((method.to_owned(), message["params"].clone()));
            }
            return message;
        }
    }

    /// Opens an address and waits until everything is loaded.
    pub(super) fn open(&mut self, url: &str) {
        // Another fragment of the same page would load nothing.
        self.call("Page.navigate", &json!({ "url": "about:blank" }));
        let loads = |browser: &Self| browser.events.iter().filter(|(name, _)| name == "Page.loadEventFired").count();
        let before = loads(self);
        self.call("Page.navigate", &json!({ "url": url }));
        while loads(self) == before
            || self.evaluate("document.readyState + location.href.split('#')[0]")
                != json!(format!("complete{}", url.split('#').next().unwrap()))
        {
            std::thread::sleep(Duration::from_millis(10));
            if loads(self) == before {
                self.evaluate("0");
            }
        }
    }

    /// The value of an expression in the page.
    pub(super) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"].get("value").cloned().unwrap_or_default()
    }

    pub(super) fn text(&mut self, expression: &str) -> String {
        let value = self.evaluate(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    /// Milliseconds that the page has computed so far: time of its thread, whatever else the machine does.
    pub(super) fn busy_ms(&mut self) -> f64 {
        let metrics = self.call("Performance.getMetrics", &json!({}));
        let metrics = metrics["metrics"].as_array().unwrap();
        let tasks = metrics.iter().find(|metric| metric["name"] == "TaskDuration").unwrap();
        tasks["value"].as_f64().unwrap() * 1000.0
    }

    /// The size of the window in pixels.
    pub(super) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// `light` or `dark`, on `screen` or in `print`.
    pub(super) fn appearance(&mut self, medium: &str, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "media": medium, "features": features }));
    }

    /// Whether scripts of pages run that are opened from now on.
    pub(super) fn scripts(&mut self, run: bool) {
        self.call("Emulation.setScriptExecutionDisabled", &json!({ "value": !run }));
    }

    /// Presses and releases a key that writes nothing, such as `ArrowDown`.
    pub(super) fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Moves the pointer over the middle of the element that an expression gives.
    pub(super) fn point_at(&mut self, element: &str) {
        let place = format!(
            "(() => {{ const element = {element}; element.scrollIntoView({{ block: 'center', inline: 'center' }}); \
             const box = element.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let place = self.evaluate(&place);
        let event = json!({ "type": "mouseMoved", "x": place[0], "y": place[1] });
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// A picture of what the window shows.
    pub(super) fn picture(&mut self, file: &Path) {
        let picture = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()).unwrap();
    }

    /// What pages complained about so far.
    pub(super) fn complaints(&self) -> Vec<String> {
        let is_one = |(name, event): &&(String, Value)| match name.as_str() {
            "Runtime.exceptionThrown" => true,
            "Runtime.consoleAPICalled" => event["type"] == "error" || event["type"] == "warning",
            "Log.entryAdded" => event["entry"]["level"] == "error",
            _ => false,
        };
        self.events.iter().filter(is_one).map(|(_, event)| event.to_string()).collect()
    }

    /// Addresses that were asked for.
    pub(super) fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|(name, _)| name == "Network.requestWillBeSent");
        sent.map(|(_, event)| event["request"]["url"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        let close = json!({ "id": self.calls + 1, "method": "Browser.close" });
        // A browser that is gone already needs no more than to be waited for.
        if self.socket.send(Message::text(close.to_string())).is_err() {
            let _ = self.program.kill();
        }
        let _ = self.program.wait();
    }
}
