#!/usr/bin/env python3
"""The live page of the demo in a real browser: headless Chromium, driven over WebDriver.

page_test.py --server PROGRAM --pictures FOLDER [unittest options]

Starts a Redis, the server and the browser itself, on free ports, and ends them by their process ids.
"""

import argparse
import base64
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

PATIENCE = 90  # seconds, for what a busy machine does late
WIDTHS = (380, 800, 1400)
given = None  # the command line


def started(words, **more):
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, **more)


def ended(process):
    """The exit code, after SIGTERM."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


class Redis:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="conch-page-")
        program = os.environ.get("CONCH_REDIS_SERVER", "redis-server")
        for _ in range(20):
            port = random.randrange(20000, 32000)  # below the ports that the system gives away itself
            self.process = started([program, *self.options(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no",
                                    "--dir", self.folder], stdout=subprocess.PIPE, text=True)
            # Its own word, not only an answer: another Redis may have the port.
            if any("Ready to accept connections" in line for line in self.process.stdout):
                return
            self.process.stdout.close()
            self.process.wait(PATIENCE)
        raise RuntimeError("redis-server does not start")

    def options(self, port):
        self.url = f"redis://127.0.0.1:{port}"
        return ["--port", str(port)]

    def end(self):
        ended(self.process)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class RedisOverTls(Redis):
    """Locks are reached over TLS (lock_url), values by a unix socket (url)."""

    def options(self, port):
        files = {name: os.path.join(self.folder, name) for name in ("key", "crt", "sock")}
        if not os.path.exists(files["crt"]):
            subprocess.run(["openssl", "req", "-x509", "-days", "1", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-subj", "/CN=page", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", files["key"], "-out", files["crt"]],
                           check=True, capture_output=True, timeout=PATIENCE)
        self.url = "unix://" + files["sock"]
        self.address = f"rediss://127.0.0.1:{port}"
        self.lock_url = f"{self.address}?cacert={files['crt']}"
        return ["--port", "0", "--tls-port", str(port), "--unixsocket", files["sock"], "--tls-auth-clients", "no",
                "--tls-cert-file", files["crt"], "--tls-key-file", files["key"]]


class Server:
    """conch-http-counter with workers."""

    def __init__(self, redis, *options, listen="127.0.0.1:0"):
        self.log = tempfile.TemporaryFile("w+")  # thousands of lines where a Redis is dead: they would hide what failed
        self.process = started([given.server, "--redis", redis.url, "--listen", listen, "--workers", "4", *options],
                               stdout=subprocess.PIPE, stderr=self.log, text=True)
        said = [self.process.stdout.readline() for _ in range(2)]
        found = re.fullmatch(r"page: (http://127\.0\.0\.1:(\d+)/)#token=([0-9a-f]{32})\n", said[1])
        assert found, (said, self.last_words())
        self.url, self.port, self.token = found.groups()

    def add_one(self):
        urllib.request.urlopen(urllib.request.Request(self.url + "counter", method="POST"), timeout=PATIENCE).read()

    def last_words(self):
        if self.log.closed:
            return "(it has ended)"
        self.log.seek(0)
        return self.log.read()[-2000:]

    def end(self):
        code = ended(self.process)
        self.process.stdout.close()
        self.log.close()
        return code


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.redis = Redis()
        cls.addClassCleanup(cls.redis.end)
        options = webdriver.ChromeOptions()
        options.binary_location = given.browser
        # As root, which has no sandbox; and without asking anybody else for anything.
        for word in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-background-networking",
                     "disable-component-update", "no-first-run", "force-prefers-reduced-motion"):
            options.add_argument("--" + word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(service=Service(given.driver), options=options)
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.set_page_load_timeout(PATIENCE)

    def setUp(self):
        self.browser.get("about:blank")
        self.browser.get_log("browser")  # what was before is not of this test
        self.look(1280, "light")

    # ---- helpers

    def serve(self, *options, redis=None, **more):
        server = self.server = Server(redis or self.redis, *options, **more)
        self.addCleanup(lambda: server.process.poll() is not None or self.assertEqual(server.end(), 0))
        return server

    def open(self, server):
        self.browser.get(server.url + "#token=" + server.token)
        self.wait_for("it is live", lambda: self.text("stream") == "Live." and self.text("lock") != "…")
        self.wait_for("the buttons", lambda: self.may_press("count-with"))

    def by(self, name):
        return self.browser.find_element(By.ID, name)

    def text(self, name):
        return self.browser.execute_script("return document.getElementById(arguments[0]).textContent", name)

    def may_press(self, name):
        return self.by(name).get_attribute("aria-disabled") == "false"

    def wait_for(self, what, is_so):
        def look(_):
            return is_so()
        try:
            WebDriverWait(self.browser, PATIENCE, 0.1).until(look)
        except TimeoutException:
            page = self.browser.find_element(By.TAG_NAME, "body").text
            self.fail(f"never seen: {what}; the page:\n{page}\nthe last words of the server:\n{self.server.last_words()}")

    def look(self, width, scheme, height=900):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def count_both(self):
        # One after the other: the first one moves the second button, and a click that is under way misses it.
        self.by("count-with").click()
        self.wait_for("the end of the count with the lock", lambda: "good" in self.by("with-words").get_attribute("class"))
        self.by("count-without").click()
        self.wait_for("the end of the count without the lock", lambda: "bad" in self.by("without-words").get_attribute("class"))

    # ---- tests

    def test_it_loads_without_errors_and_hides_the_token(self):
        server = self.serve("--name", "apples")
        self.open(server)
        self.assertEqual(self.text("lock"), "apples")
        self.assertEqual(self.browser.current_url, server.url)
        self.assertNotIn(server.token, self.browser.page_source)
        self.assertEqual(len(self.browser.find_elements(By.CSS_SELECTOR, "#workers li")), 4)
        self.assertFalse(self.by("key").is_displayed())
        self.assertEqual(self.browser.get_log("browser"), [])

    def test_a_count_with_the_lock_is_exact_and_one_without_is_not(self):
        self.open(self.serve("--name", "counts"))
        self.count_both()
        self.assertEqual(self.text("with-value"), "1,000")
        self.assertIn("none lost", self.text("with-words"))
        self.assertEqual(self.text("without-confirmed"), "1,000")
        self.assertLess(int(self.text("without-value").replace(",", "")), 1000)
        self.assertIn("both wrote", self.text("without-words"))
        self.assertGreaterEqual(int(self.text("passed").replace(",", "")), 1000)
        self.wait_for("hand-overs in the chart", lambda: self.text("top-grants") not in ("0", "1"))
        self.assertEqual(self.browser.get_log("browser"), [])

    def test_a_stopped_holder_is_replaced_and_told(self):
        self.open(self.serve("--name", "stops"))
        self.by("stop").click()
        self.wait_for("a stopped worker", lambda: self.browser.find_elements(By.CSS_SELECTOR, "#workers li.stopped"))
        self.assertFalse(self.may_press("stop"))
        self.by("stop").click()
        self.wait_for("why not", lambda: "already frozen" in self.text("answer"))
        self.wait_for("the next owner", lambda: "has the lock now" in self.text("log"))
        self.wait_for("the loss", lambda: "learned that it lost the lock" in self.text("log"))
        self.wait_for("the refused late write", lambda: self.text("refused") == "1")
        self.by("round").click()
        self.wait_for("the end of the round", lambda: self.by("round").get_attribute("aria-pressed") == "false")

    def test_the_segments_of_the_flash_sale_fill_up(self):
        self.open(self.serve("--name", "sells"))
        self.by("sale").click()
        self.wait_for("the proof", lambda: "nothing sold twice, nothing lost" in self.text("sale-words"))
        bars = self.browser.find_elements(By.CSS_SELECTOR, "#segments progress")
        self.assertEqual(len(bars), 20)
        for bar in bars:
            self.assertEqual(bar.get_property("value"), bar.get_property("max"))

    def test_a_quorum_shows_which_server_is_down_and_why_there_is_no_sale(self):
        others = [Redis(), Redis(), Redis()]
        for one in others:
            self.addCleanup(one.end)
        servers = [word for one in others for word in ("--lock-server", one.url)]
        self.open(self.serve("--name", "votes", *servers))
        self.wait_for("why there is no sale", lambda: "striped_mutex" in self.text("sale-words"))
        self.assertFalse(self.may_press("sale"))
        self.wait_for("three servers that are up", lambda: len(self.browser.find_elements(By.CSS_SELECTOR, "#servers .up")) == 3)
        others[2].process.kill()
        self.wait_for("one that is down", lambda: [e.text for e in self.browser.find_elements(By.CSS_SELECTOR, "#servers .down")]
                      == [others[2].url + ": down"])
        self.by("count-with").click()
        self.wait_for("a count that does not need it", lambda: "none lost" in self.text("with-words"))

    def test_a_dead_lock_server_shows_as_down(self):
        redis = Redis()
        self.addCleanup(redis.end)
        self.open(self.serve("--name", "dies", "--kill-command", "kill it", "--lock-server", redis.url))
        self.assertEqual(self.text("kill-command"), "kill it")
        self.wait_for("that it is up", lambda: self.browser.find_elements(By.CSS_SELECTOR, "#servers .up"))
        redis.process.kill()
        self.wait_for("that it is down", lambda: self.browser.find_elements(By.CSS_SELECTOR, "#servers .down"))
        self.wait_for("a sentence that says so", lambda: "does not answer" in self.text("sentence"))

    def test_the_lock_may_be_reached_over_tls(self):
        if given.no_tls:
            self.skipTest("built without CONCH_TLS")
        redis = RedisOverTls()
        self.addCleanup(redis.end)
        self.open(self.serve("--name", "secrets", "--lock-server", redis.lock_url, redis=redis))
        self.assertEqual(self.text("kept_by"), redis.address, "and not where its certificate is")
        self.count_both()
        self.assertEqual(self.text("with-value"), "1,000")
        self.assertIn("none lost", self.text("with-words"))
        self.by("sale").click()
        self.wait_for("the proof", lambda: "nothing sold twice, nothing lost" in self.text("sale-words"))
        self.assertEqual(self.browser.get_log("browser"), [])

    def test_a_name_stays_text(self):
        name = "</strong></script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>&lt;"
        self.open(self.serve("--name", name))
        self.count_both()
        self.assertEqual(self.text("lock"), name)
        self.assertEqual(self.browser.execute_script("return document.querySelectorAll('#lock *, #log p *, img').length"), 0)
        self.assertEqual(self.browser.execute_script("return document.scripts.length"), 1)
        self.assertIsNone(self.browser.execute_script("return window.hit"))
        self.assertEqual(self.browser.get_log("browser"), [])

    def test_the_policy_stops_a_script_that_is_not_its_own(self):
        self.open(self.serve("--name", "policy"))
        # Not what the test injects, which the browser lets pass, but what that puts into the page.
        self.browser.execute_script("const s = document.createElement('div'); s.innerHTML = '<img src=\"data:,\" onerror=\"window.hit = 1\">';"
                                    "document.body.append(s)")
        self.wait_for("what the policy says", lambda: any("Content Security Policy" in e["message"] for e in self.browser.get_log("browser")))
        self.assertIsNone(self.browser.execute_script("return window.hit"))

    def test_the_stream_comes_back_after_a_restart(self):
        server = self.serve("--name", "restarts")
        self.open(server)
        self.assertEqual(server.end(), 0)
        self.wait_for("that it is away", lambda: "No connection to the demo since" in self.text("stream"))
        self.assertIn("stale", self.browser.find_element(By.TAG_NAME, "body").get_attribute("class"))
        again = self.serve("--name", "restarts", listen="127.0.0.1:" + server.port)
        self.wait_for("that it is live again", lambda: self.text("stream") == "Live.")
        again.add_one()
        self.wait_for("an increment at the new server", lambda: self.text("passed") == "1")
        # The new server has another token: it says so, and takes it.
        self.by("sale").click()
        self.wait_for("the refusal", lambda: "token" in self.text("answer"))
        self.assertTrue(self.by("key").is_displayed())
        self.by("token").send_keys(again.token + Keys.ENTER)
        self.wait_for("the buttons", lambda: self.may_press("sale"))

    def test_it_works_with_the_keyboard_and_says_what_each_thing_is(self):
        self.open(self.serve("--name", "keys"))
        seen = []
        for _ in range(20):
            self.browser.switch_to.active_element.send_keys(Keys.TAB)
            active = self.browser.switch_to.active_element
            seen.append(active.get_attribute("id") or active.get_attribute("class"))
            self.assertNotEqual(active.value_of_css_property("outline-style"), "none", seen)
            if seen[-1] == "log":
                break
        self.assertEqual(seen, ["skip", "count-with", "count-without", "round", "stop", "sale", "log"])
        for _ in range(3):  # back to `round`
            self.browser.switch_to.active_element.send_keys(Keys.SHIFT, Keys.TAB)
        self.browser.switch_to.active_element.send_keys(Keys.ENTER)
        self.wait_for("the round", lambda: self.by("round").get_attribute("aria-pressed") == "true")
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "round")
        self.browser.switch_to.active_element.send_keys(Keys.SPACE)
        self.wait_for("its end", lambda: self.by("round").get_attribute("aria-pressed") == "false")
        # A button that cannot be pressed for a while keeps the focus.
        self.browser.switch_to.active_element.send_keys(Keys.TAB, Keys.TAB)
        self.browser.switch_to.active_element.send_keys(Keys.ENTER)
        self.wait_for("a sale", lambda: not self.may_press("sale"))
        self.wait_for("its end", lambda: self.may_press("sale"))
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "sale")
        for thing in self.browser.find_elements(By.CSS_SELECTOR, "button, progress, section, svg, ul[aria-label], ol, #log"):
            if not thing.is_displayed():
                continue
            self.assertTrue(thing.accessible_name, thing.get_attribute("outerHTML")[:200])
        self.assertEqual(self.by("log").aria_role, "log")
        self.assertEqual(self.by("stream").aria_role, "status")
        self.assertEqual(self.by("answer").aria_role, "alert")

    def test_it_fits_every_width_in_light_and_dark(self):
        self.open(self.serve("--name", "demo"))
        self.by("sale").click()
        self.count_both()
        self.wait_for("the proof", lambda: "nothing sold twice" in self.text("sale-words"))
        self.by("round").click()
        self.wait_for("a holder", lambda: "holds the lock for" in self.text("sentence"))
        self.wait_for("labels", lambda: re.match(r"At the server: conch-http-counter@\S+ \(round\) holds it; in the queue: ", self.text("names")))
        os.makedirs(given.pictures, exist_ok=True)
        grounds = set()
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                self.look(width, scheme)
                wide = self.browser.execute_script("return document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width, scheme)
                high = self.browser.execute_script("return document.documentElement.scrollHeight")
                self.look(width, scheme, high)
                self.assertTrue(self.browser.save_screenshot(f"{given.pictures}/page-{width}-{scheme}.png"))
            for colour, ground, contrast in self.browser.execute_script(CONTRASTS):
                self.assertGreaterEqual(contrast, 4.5, f"{colour} on {ground}, {scheme}")
            grounds.add(self.browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(grounds), 2)
        # The picture of the README, docs/img/page.webp: small, and of a page where things happen.
        self.look(1000, "light", 1300)
        picture = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 70})
        with open(given.pictures + "/page.webp", "wb") as file:
            file.write(base64.b64decode(picture["data"]))


# The contrast of each colour of text on each ground, as WCAG 2 defines it: AA wants 4.5.
CONTRASTS = """
const probe = document.createElement("span");
document.body.append(probe);
const light = (name) => {
  probe.style.color = `var(--${name})`;
  const parts = getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map((n) => n / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const all = [];
for (const colour of ["ink", "quiet", "accent", "good", "bad", "warm"]) {
  for (const ground of ["card", "ground"]) {
    const [more, less] = [light(colour), light(ground)].sort((a, b) => b - a);
    all.push([colour, ground, (more + 0.05) / (less + 0.05)]);
  }
}
probe.remove();
return all;
"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True, help="conch-http-counter")
    parser.add_argument("--pictures", required=True, help="a folder for the screenshots")
    parser.add_argument("--no-tls", action="store_true", help="the server was built without CONCH_TLS")
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--driver", default=shutil.which("chromedriver"))
    given, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
