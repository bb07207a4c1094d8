package peertls_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

func TestOpenRefuses(t *testing.T) {
	ca, other := newCA(t, "prod"), newCA(t, "prod")
	good := must(t)(ca.Peer("prod", "n1", nil, never))
	for _, tc := range []struct {
		name string
		ca   []byte
		cert issue.Pair
		id   string
		want string // "" if the files are accepted
	}{
		{"valid files", ca.Pair.Cert, good, "n1", ""},
		{"two CAs", slices.Concat(other.Pair.Cert, ca.Pair.Cert), good, "n1", ""},
		{"another peer's", ca.Pair.Cert, good, "n2", "it belongs to peer n1, but this is peer n2"},
		{"a client's", ca.Pair.Cert, must(t)(ca.Client("alice", nil, never)), "n1", "holdfast tls cert create --peer n1"},
		{"another CA's", other.Pair.Cert, good, "n1", "not in the CA file"},
		{"expired certificate", ca.Pair.Cert, must(t)(ca.Peer("prod", "n1", nil, time.Now().Add(-time.Hour))), "n1",
			"holdfast tls cert create"},
		{"another's key", ca.Pair.Cert, issue.Pair{Cert: good.Cert, Key: must(t)(ca.Peer("prod", "n1", nil, never)).Key},
			"n1", "does not match"},
		{"no CA", good.Cert, good, "n1", "is not a CA's"},
		{"nothing", nil, good, "n1", "no PEM certificate"},
		{"id that no certificate can have", ca.Pair.Cert, good, "n 1", `peer id "n 1"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := peertls.Open(newFiles(t, tc.ca, tc.cert).config(tc.id))
			if tc.want == "" {
				if err != nil || s.Cluster() != "prod" {
					t.Errorf("got error %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q in it", err, tc.want)
			}
		})
	}
	f := newFiles(t, ca.Pair.Cert, good)
	if err := os.Chmod(f.path("key.pem"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := peertls.Open(f.config("n1")); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("key that others can read: got %v", err)
	}
}

// New files are used by the next handshakes. Invalid files are logged once and change nothing.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(365 * 24 * time.Hour) // the bubble has its own clock
		ca, err := issue.NewCA("prod", end)
		if err != nil {
			t.Fatal(err)
		}
		peer := func(ca *issue.CA, cluster, id string) issue.Pair { return must(t)(ca.Peer(cluster, id, nil, end)) }
		f := newFiles(t, ca.Pair.Cert, peer(ca, "prod", "n1"))
		var log logged
		cfg := f.config("n1")
		cfg.Interval, cfg.Logger = 0, log.logger()
		reg := prometheus.NewRegistry()
		cfg.Registerer = reg
		s, err := peertls.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Run(t.Context()) }()
		serial := func() string {
			c, err := s.PeerClient().GetClientCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return c.Leaf.SerialNumber.String()
		}
		count := func(what string) int { return strings.Count(log.String(), what) }
		synctest.Wait()

		second := peer(ca, "prod", "n1")
		f.put("cert.pem", second.Cert) // the key comes later, so the set does not match yet
		first := serial()
		time.Sleep(2 * time.Second) // sleep: fake clock
		if got := serial(); got != first {
			t.Error("got a certificate without its key in use")
		}
		f.put("key.pem", second.Key)
		time.Sleep(2 * time.Second) // sleep: fake clock; a handshake checks the files without waiting for the interval
		if got := serial(); got == first {
			t.Error("got the old certificate in use, want the new one")
		}
		if n := count("not usable"); n != 0 {
			t.Errorf("got warnings during the change of the files:\n%s", log.String())
		}

		good := serial()
		for name, breakIt := range map[string]func(){
			"rubbish":         func() { f.put("cert.pem", []byte("rubbish")) },
			"another cluster": func() { f.write(ca.Pair.Cert, peer(ca, "lab", "n1")) },
			"another peer":    func() { f.write(ca.Pair.Cert, peer(ca, "prod", "n2")) },
			"gone":            func() { _ = os.Remove(f.path("key.pem")) },
		} {
			before := count("not usable")
			breakIt()
			time.Sleep(time.Minute) // sleep: fake clock
			if n := count("not usable") - before; n != 1 {
				t.Errorf("%s: got %d warnings, want 1:\n%s", name, n, log.String())
			}
			if got := serial(); got != good {
				t.Errorf("%s: got the invalid file in use", name)
			}
			if got := gauge(t, reg, "holdfast_tls_files_broken"); got != 1 {
				t.Errorf("%s: holdfast_tls_files_broken: got %v", name, got)
			}
			f.write(ca.Pair.Cert, second)
			time.Sleep(time.Minute) // sleep: fake clock
			if got := gauge(t, reg, "holdfast_tls_files_broken"); got != 0 {
				t.Errorf("%s: holdfast_tls_files_broken after the repair: got %v", name, got)
			}
		}
		if strings.Contains(log.String(), "PRIVATE") {
			t.Error("got a key in the log")
		}
	})
}

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	least, ok := 0.0, false
	for _, m := range all {
		for _, v := range m.GetMetric() {
			if m.GetName() == name && (!ok || v.GetGauge().GetValue() < least) {
				least, ok = v.GetGauge().GetValue(), true
			}
		}
	}
	if !ok {
		t.Fatalf("got no metric %s", name)
	}
	return least
}

// The expiry of a certificate is a metric, and a daily warning in the last fourteen days.
func TestExpiryWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		end := start.Add(20 * 24 * time.Hour)
		ca, err := issue.NewCA("prod", start.Add(1000*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		f := newFiles(t, ca.Pair.Cert, must(t)(ca.Peer("prod", "n1", nil, end)))
		var log logged
		cfg := f.config("n1")
		cfg.Interval, cfg.Logger, cfg.Registerer = time.Minute, log.logger(), prometheus.NewRegistry()
		s, err := peertls.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Run(t.Context()) }()
		if got, want := gauge(t, cfg.Registerer.(*prometheus.Registry),
			"holdfast_tls_certificate_expiry_seconds"), float64(end.Unix()); got != want {
			t.Errorf("metric: got %v, want %v", got, want)
		}
		warnings := func() int { return strings.Count(log.String(), "certificate expires soon") }
		for _, tc := range []struct {
			day  time.Duration
			want int
		}{{5, 0}, {7, 2}, {10, 5}} {
			time.Sleep(time.Until(start.Add(tc.day * 24 * time.Hour))) // sleep: fake clock
			synctest.Wait()
			if got := warnings(); got != tc.want {
				t.Errorf("day %d: got %d warnings, want %d:\n%s", tc.day, got, tc.want, log.String())
			}
		}
		f.write(ca.Pair.Cert, must(t)(ca.Peer("prod", "n1", nil, start.Add(400*24*time.Hour))))
		time.Sleep(3 * 24 * time.Hour) // sleep: fake clock
		if got := warnings(); got != 5 {
			t.Errorf("got %d warnings after the replacement, want 0", got)
		}
	})
}

// A CA is replaced in three steps. In each step, all peers can connect to each other.
func TestCAIsReplaced(t *testing.T) {
	old, next := newCA(t, "prod"), newCA(t, "prod")
	both := slices.Concat(old.Pair.Cert, next.Pair.Cert)
	type step struct {
		name string
		ca   []byte
		by   *issue.CA
	}
	steps := []step{{"old", old.Pair.Cert, old}, {"both", both, old}, {"both, new certificates", both, next},
		{"new", next.Pair.Cert, next}}
	store := func(s step, id string) *peertls.Store {
		st, err := peertls.Open(newFiles(t, s.ca, must(t)(s.by.Peer("prod", id, nil, never))).config(id))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	for i := range steps {
		for j := max(0, i-1); j <= min(i+1, len(steps)-1); j++ {
			a, b := store(steps[i], "n1"), store(steps[j], "n2")
			if _, serr, cerr := shake(t, a.PeerServer(), b.PeerClient("n1")); serr != nil || cerr != nil {
				t.Errorf("connection between peers at %q and %q: %v, %v", steps[i].name, steps[j].name, serr, cerr)
			}
		}
	}
	if _, _, err := shake(t, store(steps[3], "n1").PeerServer(), store(steps[0], "n2").PeerClient()); err == nil {
		t.Error("got a certificate of the old CA accepted")
	}
}

func TestHandshakesAreNotResumed(t *testing.T) {
	ca := newCA(t, "prod")
	s := open(t, ca, "prod", "n1")
	cfg := s.PeerClient()
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		if cs, serr, cerr := shake(t, s.PeerServer(), cfg); serr != nil || cerr != nil || cs.DidResume {
			t.Error(fmt.Sprint(i), serr, cerr, cs.DidResume)
		}
	}
}
