package peertls_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

// peersCA returns a CA for peers.
func peersCA(t testing.TB, ca *issue.CA, cluster string) *issue.CA {
	t.Helper()
	p, err := ca.NewPeerCA(cluster, never)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// below returns a pair whose certificate is followed by that of its issuer.
func below(p issue.Pair, ca *issue.CA) issue.Pair {
	return issue.Pair{Cert: append(bytes.Clone(p.Cert), ca.Pair.Cert...), Key: p.Key}
}

// TestCAOfPeers checks that a CA for peers certifies nobody else, and only for peers that know it.
func TestCAOfPeers(t *testing.T) {
	ca := newCA(t, "prod")
	peers, old := peersCA(t, ca, "prod"), peersCA(t, ca, "prod")
	s := openWith(t, ca, peers.Pair.Cert, nil)
	for _, tc := range []struct {
		name string
		pair issue.Pair
		ok   bool
	}{
		{"a peer", below(must(t)(peers.Peer("prod", "n2", nil, never)), peers), true},
		{"a peer of the cluster's CA", must(t)(ca.Peer("prod", "n2", nil, never)), true},
		{"a peer of a CA that this peer does not know", below(must(t)(old.Peer("prod", "n2", nil, never)), old), false},
		{"an admin", below(must(t)(peers.Client("alice", []string{"admin"}, never)), peers), false},
		{"an admin of the cluster's CA", must(t)(ca.Client("alice", []string{"admin"}, never)), true},
		{"a peer of another cluster", below(must(t)(peers.Peer("lab", "n2", nil, never)), peers), false},
		{"a workload", below(must(t)(peers.Named(uris(t, []string{"spiffe://example.org/web"}), never)), peers), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cs, serr, _ := shake(t, s.HTTP(), clientConfig(t, tc.pair))
			if ok := serr == nil; ok != tc.ok {
				t.Errorf("got accepted %t (%v), want %t", ok, serr, tc.ok)
			}
			if _, ok := peertls.FromState(&cs, time.Now()); tc.ok && !ok {
				t.Error("got no caller")
			}
		})
	}
}

// openWith opens the certificates of n1 with a CA of peers, and asks for renewals if ask is set.
func openWith(t testing.TB, ca *issue.CA, peerCA []byte, change func(*peertls.Config)) *peertls.Store {
	t.Helper()
	f := newFiles(t, ca.Pair.Cert, must(t)(ca.Peer("prod", "n1", []string{"n1.example.org"}, never)))
	f.put("peer-ca.pem", peerCA)
	cfg := f.config("n1")
	cfg.PeerCA = f.path("peer-ca.pem")
	if change != nil {
		cfg.Renewed, cfg.Life = f.path("renewed.pem"), 3*time.Second
		change(&cfg)
	}
	s, err := peertls.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRenewals checks that a peer renews its certificate again and again, keeps it over a restart,
// and keeps the last one while nobody signs.
func TestRenewals(t *testing.T) {
	ca := newCA(t, "prod")
	peers := peersCA(t, ca, "prod")
	var cfg peertls.Config
	s := openWith(t, ca, peers.Pair.Cert, func(c *peertls.Config) { cfg = *c })
	asked := 0
	ask := func(_ context.Context, csr []byte) ([]byte, error) {
		if asked++; asked == 2 {
			return nil, errors.New("no leader")
		}
		chain, _, err := peers.Renew(s.Leaf(), csr, time.Now(), cfg.Life)
		return chain, err
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.KeepRenewed(ctx, ask) }()
	serials := map[string]bool{s.Leaf().SerialNumber.String(): true}
	deadline := time.Now().Add(time.Minute)
	for len(serials) < 4 {
		if time.Now().After(deadline) {
			t.Fatalf("got %d certificates, want 4", len(serials))
		}
		time.Sleep(10 * time.Millisecond) // sleep: poll
		serials[s.Leaf().SerialNumber.String()] = true
	}
	if _, id, ok := peertls.PeerID(s.Leaf()); !ok || id != "n1" || s.Leaf().VerifyHostname("n1.example.org") != nil {
		t.Errorf("got a certificate of %q with the hosts %v", id, s.Leaf().DNSNames)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	info, err := os.Stat(cfg.Renewed)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file of mode 0600", info, err)
	}
	again, err := peertls.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// It may have ended meanwhile: then the first certificate is used.
	if got, want := again.Leaf().SerialNumber, s.Leaf().SerialNumber; got.Cmp(want) != 0 &&
		time.Now().Before(s.Leaf().NotAfter) {
		t.Errorf("after a restart: got the certificate %v, want %v", got, want)
	}
}

// TestChoiceOfCertificate checks which of two certificates is used.
func TestChoiceOfCertificate(t *testing.T) {
	ca, foreign := newCA(t, "prod"), newCA(t, "prod")
	peers := peersCA(t, ca, "prod")
	pair := func(by *issue.CA, id string, end time.Time) []byte {
		p := must(t)(by.Peer("prod", id, nil, end))
		return append(bytes.Clone(p.Key), append(p.Cert, by.Pair.Cert...)...)
	}
	past := time.Now().Add(-time.Minute)
	for _, tc := range []struct {
		name     string
		renewed  []byte
		made     time.Time // the end of the certificate of the files
		wantName string
	}{
		{"a newer renewed one", pair(peers, "n1", never), never, "renewed"},
		{"none that is renewed", nil, never, "made"},
		{"an expired renewed one", pair(peers, "n1", past), never, "made"},
		{"one of another peer", pair(peers, "n2", never), never, "made"},
		{"one of a CA that is gone", pair(peersCA(t, foreign, "prod"), "n1", never), never, "made"},
		{"damaged", []byte("-----BEGIN"), never, "made"},
		{"only the renewed one is valid", pair(peers, "n1", never), past, "renewed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFiles(t, ca.Pair.Cert, must(t)(ca.Peer("prod", "n1", nil, tc.made)))
			f.put("peer-ca.pem", peers.Pair.Cert)
			cfg := f.config("n1")
			cfg.PeerCA, cfg.Renewed, cfg.Life = f.path("peer-ca.pem"), f.path("renewed.pem"), time.Hour
			if tc.renewed != nil {
				// The certificate of the files was made last: an operator's newer one counts. So
				// renew it after.
				renewed := tc.renewed
				if tc.wantName == "renewed" {
					renewed = pair(peers, "n1", never)
				}
				f.put(filepath.Base(cfg.Renewed), renewed)
			}
			s, err := peertls.Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := "made"
			if s.Leaf().Issuer.CommonName != ca.Cert.Subject.CommonName {
				got = "renewed"
			}
			if got != tc.wantName {
				t.Errorf("got the %s certificate, want the %s one", got, tc.wantName)
			}
		})
	}
}

// TestEndedWhileDown checks which certificate a peer presents whose clock may be behind, because it
// was down or paused: not the renewed one if it may have ended, unless there is no other.
func TestEndedWhileDown(t *testing.T) {
	ca := newCA(t, "prod")
	peers := peersCA(t, ca, "prod")
	now := time.Now()
	ended := now.Add(24 * time.Hour) // of the renewed certificate
	for _, tc := range []struct {
		name        string
		now, latest time.Duration // compared with the time
		made        time.Time     // the end of the certificate of the files
		want        string
	}{
		{"the clock is right", 48 * time.Hour, 48 * time.Hour, never, "made"},
		{"the clock may be behind", 0, 48 * time.Hour, never, "made"},
		{"the clock is right, and it has not ended", 0, 0, never, "renewed"},
		{"both may have ended", 0, 48 * time.Hour, now.Add(36 * time.Hour), "renewed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFiles(t, ca.Pair.Cert, must(t)(ca.Peer("prod", "n1", nil, tc.made)))
			f.put("peer-ca.pem", peers.Pair.Cert)
			p := must(t)(peers.Peer("prod", "n1", nil, ended))
			f.put("renewed.pem", append(bytes.Clone(p.Key), append(p.Cert, peers.Pair.Cert...)...))
			cfg := f.config("n1")
			cfg.PeerCA, cfg.Renewed, cfg.Life = f.path("peer-ca.pem"), f.path("renewed.pem"), time.Hour
			behind, latest := atomic.Int64{}, atomic.Int64{}
			behind.Store(int64(tc.now))
			latest.Store(int64(tc.latest))
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(behind.Load())) }
			cfg.Latest = func() time.Time { return time.Now().Add(time.Duration(latest.Load())) }
			s, err := peertls.Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			check := func(when, want string) {
				t.Helper()
				got := "made"
				if s.Leaf().Issuer.CommonName != ca.Cert.Subject.CommonName {
					got = "renewed"
				}
				if got != want {
					t.Errorf("%s: got the %s certificate, want the %s one", when, got, want)
				}
			}
			check("at the start", tc.want)
			if tc.made != never {
				return
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() { _ = s.Run(ctx) }()
			for _, step := range []struct {
				now, latest time.Duration
				want        string
			}{
				{0, 0, "renewed"},
				{0, 48 * time.Hour, "made"},
				{0, 0, "renewed"},
				{48 * time.Hour, 48 * time.Hour, "made"},
			} {
				behind.Store(int64(step.now))
				latest.Store(int64(step.latest))
				for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
					if (s.Leaf().Issuer.CommonName == ca.Cert.Subject.CommonName) == (step.want == "made") {
						break
					}
					time.Sleep(5 * time.Millisecond) // sleep: poll
				}
				check(fmt.Sprint("after clocks ", step.now, " ", step.latest), step.want)
			}
		})
	}
}
