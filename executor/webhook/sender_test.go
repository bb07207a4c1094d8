package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// peer is a single-peer cluster with a real state and no consensus.
type peer struct {
	*fsm.FSM
	t     *testing.T
	mu    sync.Mutex
	index uint64
	epoch uint64

	transport  http.RoundTripper // of lead; nil for the default
	refuseOpen bool
}

func newPeer(t *testing.T) *peer {
	p := &peer{FSM: fsm.New(), t: t, epoch: 1}
	p.do(&internalv1.Command{
		Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "p1", Term: 1}}})
	p.do(&internalv1.Command{Op: &internalv1.Command_InitCluster{InitCluster: &internalv1.InitCluster{ClusterId: "c-1"}}})
	return p
}

func (p *peer) Apply(_ context.Context, c *internalv1.Command) (fsm.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c = proto.CloneOf(c)
	if c.FeatureLevel = 1; c.Epoch == 0 {
		c.Epoch = p.epoch
	}
	p.index++
	c.Time = timestamppb.New(time.Unix(1_769_699_400+int64(p.index), 0))
	b, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{c}})
	if err != nil {
		return fsm.Result{}, err
	}
	if len(b) > 512<<10 {
		return fsm.Result{}, &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrTooLarge}
	}
	rs := p.FSM.Apply(p.index, p.epoch, b)
	if err := p.HaltError(); err != nil {
		return fsm.Result{}, err
	}
	if rs[0].Err != nil {
		return rs[0], rs[0].Err
	}
	return rs[0], nil
}

func (p *peer) do(c *internalv1.Command) {
	p.t.Helper()
	if _, err := p.Apply(p.t.Context(), c); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) put(w *holdfastv1.Webhook) {
	p.t.Helper()
	p.do(&internalv1.Command{Op: &internalv1.Command_PutWebhook{PutWebhook: &internalv1.PutWebhook{Webhook: w}}})
}

// machine creates a machine, which causes one machine.phase event among others.
func (p *peer) machine(id string) {
	p.t.Helper()
	p.do(&internalv1.Command{
		Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
			Machine: &holdfastv1.Machine{MachineId: id}}}})
}

// wait polls until a webhook meets a condition.
func (p *peer) wait(name string, ok func(*holdfastv1.Webhook) bool) {
	p.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		w, _ := p.View().Webhook("h")
		if ok(w) {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("wait for %s: got webhook %v", name, w)
		}
	}
}

func delivered(w *holdfastv1.Webhook) bool { return w.GetBehind() == 0 && w.GetFailures() == 0 }

// lead runs a sender for a new, confirmed term until the test ends or stop is called.
func (p *peer) lead(secrets Secrets) (stop func()) {
	p.t.Helper()
	return p.leadWhile(secrets, func(context.Context) error { return nil })
}

func (p *peer) leadWhile(secrets Secrets, confirm func(context.Context) error) (stop func()) {
	p.t.Helper()
	p.mu.Lock()
	p.epoch++
	epoch := p.epoch
	p.mu.Unlock()
	p.do(&internalv1.Command{
		Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "p1",
			Term: epoch}}})
	s := NewSender(Config{FirstRetry: time.Millisecond, LastRetry: 5 * time.Millisecond, NoteEvery: 5 * time.Millisecond,
		ReadEvery: time.Millisecond, Timeout: 20 * time.Second, Transport: p.transport,
		RefuseOpen: p.refuseOpen}, p, p, secrets)
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, leader.NewTerm(epoch, confirm))
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("sender: got %v", err)
		}
	})
	p.t.Cleanup(stop)
	return stop
}

// receiver records the events that it accepts. answer decides which to refuse.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	took   []received
	answer func(n int, w http.ResponseWriter) bool // true: accepted
	asked  int
}

type received struct {
	header http.Header
	body   []byte
	event  cloudEvent
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		m := received{header: req.Header, body: body}
		if err := json.Unmarshal(body, &m.event); err != nil {
			t.Errorf("got %q: %v", body, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked++
		if r.answer == nil || r.answer(r.asked, w) {
			r.took = append(r.took, m)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.took)
}

// machines returns the machines of the accepted events, in order.
func (r *receiver) machines() []string {
	var ids []string
	for _, m := range r.all() {
		ids = append(ids, m.event.PartitionKey)
	}
	return ids
}

const phases = `type = "machine.phase"`

func TestEventsAreDeliveredInOrderAndSigned(t *testing.T) {
	p, r := newPeer(t), newReceiver(t)
	p.machine("before")
	p.do(&internalv1.Command{
		Op: &internalv1.Command_PutSecret{PutSecret: &internalv1.PutSecret{Secret: &internalv1.StoredSecret{
			Secret: &holdfastv1.Secret{Name: "key", Type: "token", Keys: []string{"token"},
				Version: 1}, Sealed: &internalv1.Sealed{KeyId: "k", Nonce: []byte("n"), Ciphertext: []byte("c")}}}}})
	p.put(&holdfastv1.Webhook{Name: "h", Url: r.URL + "/in?team=a", Filter: phases, SecretRef: "key"})
	stop := p.lead(box{"token": "correct horse"})
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("m-%d", i))
		p.machine(want[i])
	}
	p.wait("all deliveries", delivered)
	if got := r.machines(); !slices.Equal(got, want) {
		t.Errorf("got %v, want each once and in order", got)
	}
	var last string
	for _, m := range r.all() {
		e := m.event
		if e.SpecVersion != "1.0" || e.Type != "io.holdfast.machine.phase" || e.Source != "/clusters/c-1" ||
			e.Subject != "machines/"+e.PartitionKey || e.Sequence <= last ||
			m.header.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" {
			t.Errorf("got %s with %v", m.body, m.header)
		}
		last = e.Sequence
		seconds, err := strconv.ParseInt(m.header.Get("Webhook-Timestamp"), 10, 64)
		if err != nil || m.header.Get("Webhook-Id") != e.ID ||
			m.header.Get("Webhook-Signature") != sign([]byte("correct horse"), e.ID, time.Unix(seconds, 0), m.body) {
			t.Errorf("message %s: got %q at %q", e.ID, m.header.Get("Webhook-Signature"), m.header.Get("Webhook-Timestamp"))
		}
	}

	// The next leader continues from the recorded position.
	stop()
	p.lead(box{"token": "correct horse"})
	p.machine("after")
	p.wait("the last delivery", delivered)
	if got := r.machines(); !slices.Equal(got, append(want, "after")) {
		t.Errorf("got %v after another leader, want only the new event", got[len(want):])
	}
}

func TestFailingReceiver(t *testing.T) {
	p, r := newPeer(t), newReceiver(t)
	r.answer = func(n int, w http.ResponseWriter) bool {
		if n%4 == 0 {
			return true
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	}
	p.put(&holdfastv1.Webhook{Name: "h", Url: r.URL, Filter: phases})
	p.lead(nil)
	want := []string{"a", "b", "c", "d", "e"}
	for _, id := range want {
		p.machine(id)
	}
	p.wait("a failure on record", func(w *holdfastv1.Webhook) bool { return w.GetFailures() > 0 || w.GetBehind() == 0 })
	p.wait("all deliveries", delivered)
	if got := r.machines(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A term that ends while the receiver is down loses no event. A leader that dies before it records
// a delivery causes a repetition.
func TestLeaderDiesDuringDelivery(t *testing.T) {
	p, r := newPeer(t), newReceiver(t)
	away := make(chan struct{})
	r.answer = func(_ int, w http.ResponseWriter) bool {
		select {
		case <-away:
			return true
		default:
			w.WriteHeader(http.StatusBadGateway)
			return false
		}
	}
	p.put(&holdfastv1.Webhook{Name: "h", Url: r.URL, Filter: phases})
	stop := p.lead(nil)
	p.machine("a")
	p.wait("a failure", func(w *holdfastv1.Webhook) bool {
		return w.GetFailures() > 2 && strings.Contains(w.GetLastError(), "502 Bad Gateway")
	})
	stop()
	p.machine("b")
	close(away)
	p.lead(nil)
	p.wait("all deliveries", delivered)
	if got := r.machines(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v, want a and b", got)
	}
}

// A leader that cannot confirm its term delivers nothing, and does not count that as a failure of
// the receiver.
func TestLeaderInDoubt(t *testing.T) {
	p, r := newPeer(t), newReceiver(t)
	var asked, sure atomic.Int32
	p.put(&holdfastv1.Webhook{Name: "h", Url: r.URL, Filter: phases})
	p.leadWhile(nil, func(context.Context) error {
		asked.Add(1)
		if sure.Load() == 0 {
			return errors.New("no majority answers")
		}
		return nil
	})
	p.machine("a")
	p.wait("the leader to ask twice", func(*holdfastv1.Webhook) bool { return asked.Load() > 1 })
	if w, _ := p.View().Webhook("h"); len(r.machines()) != 0 || w.GetFailures() != 0 || w.GetLastError() != "" {
		t.Errorf("in doubt: got deliveries %v, webhook %v", r.machines(), w)
	}
	sure.Store(1)
	p.wait("the event", delivered)
	if got := r.machines(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v, want a", got)
	}
}

func TestWebhookIsChanged(t *testing.T) {
	p, first, second := newPeer(t), newReceiver(t), newReceiver(t)
	p.lead(nil)
	hook := &holdfastv1.Webhook{Name: "h", Url: first.URL, Filter: phases}
	p.put(hook)
	p.machine("a")
	p.wait("the first", delivered)
	hook.Disabled = true
	p.put(hook)
	p.machine("b")
	hook.Disabled, hook.Url = false, second.URL
	p.put(hook)
	p.wait("the second, at another URL", delivered)
	if a, b := first.machines(), second.machines(); !slices.Equal(a, []string{"a"}) || !slices.Equal(b, []string{"b"}) {
		t.Errorf("got %v at the first URL and %v at the second, want a and b", a, b)
	}
	p.do(&internalv1.Command{Op: &internalv1.Command_DeleteWebhook{DeleteWebhook: &internalv1.DeleteWebhook{Name: "h"}}})
	p.machine("c")
	hook.Filter = `machine_id = "d"`
	p.put(hook)
	p.machine("d")
	p.wait("the fourth", delivered)
	if got := second.machines(); slices.Contains(got, "c") || !slices.Contains(got, "d") {
		t.Errorf("got %v, want d, and not c, which was before the webhook", got)
	}
}

// A webhook that is disabled and enabled again between two checks gets a new post.
func TestWebhookIsChangedBack(t *testing.T) {
	p, r := newPeer(t), newReceiver(t)
	hook := &holdfastv1.Webhook{Name: "h", Url: r.URL, Filter: phases}
	p.put(hook)
	first := NewSender(Config{}, p, p, nil).start(t.Context(),
		leader.NewTerm(p.epoch, func(context.Context) error { return nil }), "h")
	go first.run()
	now := func() *holdfastv1.Webhook {
		w, _ := p.View().Webhook("h")
		return w
	}
	if !first.current(now()) {
		t.Error("unchanged webhook: got another post")
	}
	hook.Disabled = true
	p.put(hook)
	<-first.done
	hook.Disabled = false
	p.put(hook)
	if first.current(now()) {
		t.Error("changed webhook: got the ended post")
	}
}

// Errors that are shown or stored do not contain the URL, because its query may be a credential.
// statusOf is a receiver that answers with a status line.
type statusOf string

func (s statusOf) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 503, Status: string(s), Body: http.NoBody}, nil
}

// A receiver may answer with a status that is no text, or too long for a log entry. The failure is
// recorded all the same.
func TestFailureWithBrokenStatus(t *testing.T) {
	for name, status := range map[string]string{"not UTF-8": "503 \xff", "long": "503 " + strings.Repeat("x", 600<<10)} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			p.put(&holdfastv1.Webhook{Name: "h", Url: "http://127.0.0.1/hook", Filter: phases})
			p.transport = statusOf(status)
			p.lead(nil)
			p.machine("m-1")
			p.wait("a recorded failure", func(w *holdfastv1.Webhook) bool {
				return w.GetFailures() > 0 && strings.HasPrefix(w.GetLastError(), "the receiver answers 503")
			})
		})
	}
}

// A webhook that is older than the rule, or of a restored snapshot, gets nothing in plain text.
func TestOpenWebhooksGetNothing(t *testing.T) {
	p, r := newPeer(t), newReceiver(t)
	p.refuseOpen = true
	p.put(&holdfastv1.Webhook{Name: "h", Url: r.URL, Filter: phases})
	p.lead(nil)
	p.machine("a")
	p.wait("the refusal", func(w *holdfastv1.Webhook) bool {
		return strings.Contains(w.GetLastError(), "--open-webhooks") && strings.Contains(w.GetLastError(), "https")
	})
	if got := r.machines(); len(got) != 0 {
		t.Errorf("got %v, want no delivery", got)
	}
}

func TestFailuresHaveNoSecrets(t *testing.T) {
	p, r := newPeer(t), newReceiver(t)
	url := r.URL
	r.answer = func(_ int, w http.ResponseWriter) bool {
		w.Header().Set("Location", url+"/elsewhere")
		w.WriteHeader(http.StatusFound)
		return false
	}
	p.put(&holdfastv1.Webhook{Name: "h", Url: url + "/hunter2?token=hunter2", Filter: phases})
	p.lead(nil)
	p.machine("a")
	p.wait("the redirect", func(w *holdfastv1.Webhook) bool { return strings.Contains(w.GetLastError(), "302 Found") })
	r.Close()
	p.wait("a connect error", func(w *holdfastv1.Webhook) bool { return strings.Contains(w.GetLastError(), "refused") })
	if w, _ := p.View().Webhook("h"); strings.Contains(w.GetLastError(), "hunter2") {
		t.Errorf("got the URL in error %s", w.GetLastError())
	}
	if got := r.machines(); len(got) != 0 {
		t.Errorf("got %v, want no delivery", got)
	}
}

func TestKey(t *testing.T) {
	p := newPeer(t)
	for name, tt := range map[string]struct {
		secrets Secrets
		want    string
	}{
		"bytes":     {box{"token": "abc"}, "abc"},
		"base64":    {box{"token": keyPrefix + base64.StdEncoding.EncodeToString([]byte("abc"))}, "abc"},
		"no base64": {box{"token": keyPrefix + "%"}, ""},
		"no key":    {box{"password": "abc"}, ""},
		"no secret": {box(nil), ""},
	} {
		s := &post{Sender: NewSender(Config{}, p, p, tt.secrets)}
		key, err := s.key(t.Context(), "key")
		if string(key) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: got %q, %v; want %q", name, key, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "%\"") {
			t.Errorf("%s: got the value in error %v", name, err)
		}
	}
}

// box returns a secret.
type box map[string]string

func (b box) Resolve(_ context.Context, name string) (secrets.Secret, error) {
	if b == nil {
		return secrets.Secret{}, errors.New("secret not found")
	}
	s := secrets.Secret{Name: name, Type: "token", Version: 1, Values: map[string]secrets.Value{}}
	for k, v := range b {
		s.Values[k] = secrets.NewValue(v)
	}
	return s, nil
}
