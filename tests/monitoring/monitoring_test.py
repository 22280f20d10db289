#!/usr/bin/env python3
"""examples/monitoring: by promtool, and with a real Prometheus that scrapes the demo.

monitoring_test.py --server PROGRAM --prometheus PROGRAM --promtool PROGRAM [unittest options]

Starts the Redis servers, the demo's servers and Prometheus itself, on free ports, and ends them by their process ids.
"""

import argparse
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

PATIENCE = 120  # seconds, for what a busy machine does late
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "monitoring")
given = None  # the command line


def started(words, **more):
    """A process that does not live longer than this one."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], stdin=subprocess.DEVNULL, **more)


def ended(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def a_port():
    return random.randrange(20000, 32000)  # below the ports that the system gives away itself


def answer_of(url, method="GET"):
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=PATIENCE) as answer:
        return answer.read().decode()


def text_of(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def wait_for(what, is_so):
    """The first answer of `is_so` that counts as true."""
    end = time.monotonic() + PATIENCE
    while True:
        seen = is_so()
        if seen:
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"not seen in {PATIENCE} s: {what}")
        time.sleep(0.2)


class Redis:
    def __init__(self, folder):
        self.folder = folder
        for _ in range(20):
            self.port = a_port()
            if self.start():
                return
        raise RuntimeError("redis-server does not start")

    def start(self):
        program = os.environ.get("CONCH_REDIS_SERVER", "redis-server")
        with open(os.path.join(self.folder, f"redis-{self.port}.log"), "w+", encoding="utf-8") as log:
            self.process = started([program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize",
                                    "no", "--dir", self.folder], stdout=log, stderr=log)

            def outcome():
                # Its own word, not only an answer: another Redis may have the port.
                log.seek(0)
                return "ready" if "Ready to accept connections" in log.read() else "ended" if self.process.poll() is not None else None
            return wait_for("a redis-server that is ready", outcome) == "ready"

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def end(self):
        ended(self.process)


class Counter:
    """conch-http-counter under load: some threads that add one, and take no notice of what is refused."""

    def __init__(self, *options):
        self.process = started([given.server, "--listen", "127.0.0.1:0", "--wait-ms", "2000", *options], stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline()
        found = re.fullmatch(r"listening on (http://(127\.0\.0\.1:\d+))\n", said)
        assert found, said
        self.url, self.address = found.groups()
        self.enough = threading.Event()
        self.added = 0
        self.threads = [threading.Thread(target=self.load, daemon=True) for _ in range(4)]
        for thread in self.threads:
            thread.start()

    def load(self):
        while not self.enough.is_set():
            try:
                answer_of(self.url + "/counter", "POST")
                self.added += 1
            except (OSError, http.client.HTTPException):  # also an answer like 503
                pass
            self.enough.wait(0.02)

    def metrics(self):
        return answer_of(self.url + "/metrics")

    def end(self):
        self.enough.set()
        for thread in self.threads:
            thread.join(PATIENCE)
        ended(self.process)
        self.process.stdout.close()


class Prometheus:
    """With the files of examples/monitoring. Only times are shorter, and the targets are those of the test."""

    def __init__(self, folder, targets):
        self.folder = os.path.join(folder, "prometheus")
        os.mkdir(self.folder)
        alerts, waits = re.subn(r"\bfor: \w+", "for: 3s", text_of(EXAMPLE, "alerts.yml"))
        assert waits > 3, waits
        config, intervals = re.subn(r"_interval: 15s", "_interval: 2s", text_of(EXAMPLE, "prometheus.yml"))
        config, lists = re.subn(r'targets: \["127\.0\.0\.1:8080"\]', "targets: " + json.dumps(targets), config)
        assert (intervals, lists) == (2, 1), (intervals, lists)
        for name, text in (("alerts.yml", alerts), ("prometheus.yml", config)):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        for _ in range(20):
            if self.start():
                return
        raise RuntimeError("prometheus does not start: " + text_of(self.folder, "log"))

    def start(self):
        port = a_port()
        data = os.path.join(self.folder, "data")
        self.url = f"http://127.0.0.1:{port}"
        with open(os.path.join(self.folder, "log"), "w", encoding="utf-8") as log:
            self.process = started([given.prometheus, "--config.file=" + os.path.join(self.folder, "prometheus.yml"),
                                    "--storage.tsdb.path=" + data, f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
                                   stdout=log, stderr=log)

        def outcome():
            if self.process.poll() is not None:
                return "ended"
            try:
                answer_of(self.url + "/-/ready")
                # Another Prometheus may have the port.
                return "ready" if self.ask("status/flags")["storage.tsdb.path"] == data else None
            except (OSError, http.client.HTTPException):
                return None
        return wait_for("a Prometheus that is ready", outcome) == "ready"

    def ask(self, what, **words):
        answer = json.loads(answer_of(f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(words)}"))
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression):
        """[(labels, value)]"""
        return [(one["metric"], float(one["value"][1])) for one in self.ask("query", query=expression)["result"]]

    def firing(self, alert, counter):
        return [one for one in self.ask("alerts")["alerts"]
                if one["state"] == "firing" and one["labels"]["alertname"] == alert and one["labels"]["instance"] == counter.address]

    def end(self):
        ended(self.process)


def promtool(*words, **more):
    return subprocess.run([given.promtool, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False, **more)


def dashboard():
    return json.loads(text_of(EXAMPLE, "dashboard.json"))


def queries():
    """(title of the panel, PromQL as Grafana sends it) of the whole dashboard."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$job", ".*").replace("$instance", ".*")
            yield panel["title"], expression.replace("$__rate_interval", "1m").replace("$__range", "10m")


class Files(unittest.TestCase):
    def test_configuration_and_rules_are_valid(self):
        done = promtool("check", "config", os.path.join(EXAMPLE, "prometheus.yml"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"SUCCESS: 1 rule files found")
        done = promtool("check", "rules", "--lint-fatal", os.path.join(EXAMPLE, "alerts.yml"))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_each_alert_fires_when_it_shall_and_not_otherwise(self):
        done = promtool("test", "rules", os.path.join(HERE, "alerts_test.yml"))
        self.assertEqual(done.returncode, 0, done.stdout)
        alerts = re.findall(r"alert: (\w+)", text_of(EXAMPLE, "alerts.yml"))
        self.assertGreater(len(alerts), 10)
        self.assertEqual(sorted(alerts), sorted(set(re.findall(r'alertname="(\w+)"', text_of(HERE, "alerts_test.yml")))))

    def test_a_changed_rule_is_noticed(self):
        with tempfile.TemporaryDirectory(prefix="conch-monitoring-") as folder:
            alerts = text_of(EXAMPLE, "alerts.yml")
            cases = text_of(HERE, "alerts_test.yml").replace("../../examples/monitoring/", "")
            for before, after in (("> 5\n", "> 9\n"), ("for: 30s", "for: 3m"), ("0.05 *", "0.03 *"), ("14 * 86400", "30 * 86400"),
                                  ("(conch_server_connected) <= count", "(conch_server_connected) < count")):
                self.assertIn(before, alerts)
                for name, text in (("alerts.yml", alerts.replace(before, after)), ("alerts_test.yml", cases)):
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                        file.write(text)
                self.assertNotEqual(promtool("test", "rules", os.path.join(folder, "alerts_test.yml")).returncode, 0, after)

    def test_the_dashboard_is_whole(self):
        panels = dashboard()["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            self.assertFalse(cells & taken, panel["title"] + " covers another panel")
            taken |= cells
            if panel["type"] != "row":
                self.assertTrue(panel["targets"], panel["title"])
                self.assertEqual(panel["datasource"]["uid"], "${datasource}", panel["title"])
        variables = {one["name"] for one in dashboard()["templating"]["list"]}
        self.assertEqual(variables, {"datasource", "job", "instance"})


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="conch-monitoring-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

        def kept(thing):
            cls.addClassCleanup(thing.end)
            return thing
        cls.counts = kept(Redis(cls.folder))
        cls.alone = kept(Redis(cls.folder))
        cls.three = [kept(Redis(cls.folder)) for _ in range(3)]
        cls.one = kept(Counter("--redis", cls.counts.url, "--lock-server", cls.alone.url, "--name", "one"))
        cls.quorum = kept(Counter("--redis", cls.counts.url, "--name", "quorum", *(word for r in cls.three for word in ("--lock-server", r.url))))
        cls.prometheus = kept(Prometheus(cls.folder, [cls.one.address, cls.quorum.address]))

    def scraped_under_load(self):
        for counter in (self.one, self.quorum):
            wait_for("increments under the lock, as Prometheus sees them", lambda: any(
                labels["instance"] == counter.address and value > 0
                for labels, value in self.prometheus.query('rate(conch_wait_seconds_count{job="conch"}[30s])')))

    def fires_and_ends(self, alert, counter, server):
        """While `server` is stopped; the labels of the alert."""
        self.scraped_under_load()
        # With the server of an earlier test back, it has ended.
        wait_for(f"an end of {alert}", lambda: not self.prometheus.firing(alert, counter))
        server.end()
        fired = wait_for(alert, lambda: self.prometheus.firing(alert, counter))
        self.assertEqual(len(fired), 1)
        self.assertTrue(wait_for("the server, on its port", server.start))
        wait_for(f"an end of {alert}", lambda: not self.prometheus.firing(alert, counter))
        self.scraped_under_load()
        return fired[0]

    def test_names_and_types_follow_the_conventions(self):
        self.scraped_under_load()
        for counter in (self.one, self.quorum):
            text = counter.metrics()
            self.assertIn("conch_acquires_total", text)
            done = promtool("check", "metrics", input=text)
            self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("conch_server_connected{", text)
        done = promtool("check", "metrics", input=text.replace("conch_acquires_total", "conch_acquires"))
        self.assertNotEqual(done.returncode, 0)

    def test_nothing_is_wrong_with_a_scrape(self):
        self.scraped_under_load()
        # Waited for: on a busy machine one scrape may take longer than its time.
        wait_for("both targets without an error", lambda: [(target["health"], target["lastError"]) for target in
                                                           self.prometheus.ask("targets")["activeTargets"]] == [("up", "")] * 2)
        for group in self.prometheus.ask("rules")["groups"]:
            for rule in group["rules"]:
                self.assertNotEqual(rule["health"], "err", rule)

    def test_every_query_of_the_dashboard_can_be_answered(self):
        self.scraped_under_load()
        elsewhere = "conch_tls_peer_certificate_expires_seconds"  # only over TLS
        asked = 0
        for title, expression in queries():
            asked += 1
            if elsewhere in expression:
                self.prometheus.query(expression)
            else:
                wait_for(f"an answer for {title}: {expression}", lambda: self.prometheus.query(expression))
        self.assertGreater(asked, 40)

    def test_an_alert_fires_when_the_lock_server_is_stopped_and_ends_when_it_is_back(self):
        fired = self.fires_and_ends("ConchLockServerAway", self.one, self.alone)
        self.assertEqual(fired["labels"]["severity"], "critical")
        self.assertIn(self.one.address, fired["annotations"]["summary"])

    def test_another_alert_fires_when_one_of_three_is_stopped_and_the_others_go_on(self):
        before = self.quorum.added
        fired = self.fires_and_ends("ConchMinorityAway", self.quorum, self.three[1])
        self.assertIn(str(self.three[1].port), fired["labels"]["server"])
        self.assertEqual(self.prometheus.firing("ConchMajorityAway", self.quorum), [])
        self.assertGreater(self.quorum.added, before)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--prometheus", required=True)
    arguments.add_argument("--promtool", required=True)
    given, rest = arguments.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
