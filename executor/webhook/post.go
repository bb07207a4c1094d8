package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/filter"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	batch      = 64                     // events per read
	pollPause  = 20 * time.Millisecond  // minimum time between two reads of events
	freshTerm  = 500 * time.Millisecond // how long a confirmed term counts as confirmed
	skipNote   = 4096                   // filtered-out events after which the position is recorded
	noteLimit  = 10 * time.Second       // timeout of one command
	maxAnswer  = 64 << 10               // bytes of a response to discard, so that the connection can be reused
	keyPrefix  = "whsec_"               // of keys in base64 (Standard Webhooks)
	signingKey = "token"                // name of the value in the secret
)

// post delivers events to one webhook, until the term ends or the webhook changes.
type post struct {
	*Sender
	lead   context.Context // ends with the term
	ctx    context.Context // child of lead; ends with the post
	stop   context.CancelFunc
	done   chan struct{}
	stale  bool // valid once done is closed: the post ended because its webhook changed
	term   leader.Term
	hook   *holdfastv1.Webhook
	filter *filter.Filter

	cursor    uint64 // the last event that was delivered or filtered out
	noted     uint64 // the recorded cursor
	notedAt   time.Time
	delivered bool   // an event was delivered since then
	missed    uint64 // missed events that are not recorded yet
	counted   uint64 // missed events that are recorded
	failures  uint32
	confirmed time.Time
}

func (s *Sender) start(ctx context.Context, t leader.Term, name string) *post {
	p := &post{Sender: s, lead: ctx, term: t, done: make(chan struct{})}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.hook, _ = s.state.View().Webhook(name)
	p.cursor, p.noted, p.failures = p.hook.GetCursor(), p.hook.GetCursor(), p.hook.GetFailures()
	p.counted = p.hook.GetMissed()
	return p
}

// current reports whether the post delivers to the webhook as it is now. It returns false
// if the post ended because its webhook changed, even if that change was reverted since.
func (p *post) current(w *holdfastv1.Webhook) bool {
	select {
	case <-p.done:
		return sameHook(p.hook, w) && !p.stale
	default:
		return sameHook(p.hook, w)
	}
}

// run delivers events until its context ends or its webhook changes. Failed deliveries are
// retried.
func (p *post) run() {
	defer close(p.done)
	var err error
	// The filter was valid when it was stored, but may be from a later version.
	if p.filter, err = filter.CompileEvent(p.hook.GetFilter()); err != nil {
		p.cfg.Logger.Error("webhook filter is invalid, delivering nothing", "webhook", p.hook.GetName(), "error", err)
		return
	}
	for {
		changed := p.state.Changed()
		if err := p.deliverAll(); err != nil {
			p.stale = errors.Is(err, errChanged)
			break
		}
		if nextChange(p.ctx, pollPause, changed) != nil {
			break
		}
	}
	// The next post starts from the recorded position. Another leader would refuse the
	// record, and after a failure it is already recorded.
	if p.lead.Err() == nil && p.failures == 0 {
		p.note("")
	}
}

// errChanged ends a post whose webhook was changed or deleted. The Sender starts another
// one if needed.
var errChanged = errors.New("the webhook was changed")

// deliverAll delivers all events so far. Its error is that of the context, or errChanged.
func (p *post) deliverAll() error {
	for {
		view := p.state.View()
		w, ok := view.Webhook(p.hook.GetName())
		if !ok || w.GetDisabled() || !sameHook(p.hook, w) { // later events are for the changed webhook
			return errChanged
		}
		p.cursor = max(p.cursor, w.GetCursor()) // a restore moves the position past all earlier events
		if first := view.FirstEvent(); p.cursor+1 < first {
			p.skip(first - 1 - p.cursor)
		}
		events, err := view.Events(p.cursor, batch)
		if err != nil || len(events) == 0 { // the state is briefly behind the record of the last leader
			break
		}
		for _, e := range events {
			if p.filter.Match(e) {
				if err := p.deliver(e); err != nil {
					return err
				}
				p.delivered = true
			}
			p.cursor = e.GetCursor()
			if time.Since(p.notedAt) >= p.cfg.NoteEvery && (p.delivered || p.cursor-p.noted >= skipNote) {
				p.note("")
			}
		}
	}
	if p.delivered && time.Since(p.notedAt) >= p.cfg.NoteEvery {
		p.note("")
	}
	return p.ctx.Err()
}

// skip skips events that are no longer stored.
func (p *post) skip(n uint64) {
	p.cfg.Logger.Warn("webhook missed events that are no longer stored", "webhook", p.hook.GetName(), "events", n)
	p.cursor += n
	p.missed += n
	p.record(&internalv1.NoteDelivery{Failures: p.failures})
}

// deliver posts an event until the receiver accepts it.
func (p *post) deliver(e *holdfastv1.Event) error {
	pause := p.cfg.FirstRetry
	for range min(p.failures, 16) { // continue with the retry delay of the previous leader
		pause = min(2*pause, p.cfg.LastRetry)
	}
	for {
		if err := p.confirm(); err != nil {
			return err
		}
		after, err := p.try(e)
		if p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		if err == nil {
			p.tries.WithLabelValues(p.hook.GetName(), "delivered").Inc()
			if p.failures > 0 {
				p.cfg.Logger.Info("webhook accepts events again", "webhook", p.hook.GetName(), "failures", p.failures)
				p.failures, p.cursor = 0, e.GetCursor()
				p.note("")
			}
			return nil
		}
		p.tries.WithLabelValues(p.hook.GetName(), "failed").Inc()
		p.failures++
		p.note(task.Truncate(task.MaxValue, err.Error())) // it contains text of the receiver
		p.cfg.Logger.Warn("webhook delivery failed, will retry", "webhook", p.hook.GetName(),
			"event", e.GetCursor(), "failures", p.failures, "error", err)
		if err := wait.Sleep(p.ctx, min(max(pause, after), p.cfg.LastRetry)); err != nil {
			return err
		}
		pause = min(2*pause, p.cfg.LastRetry)
	}
}

// confirm returns once the term is confirmed to be current. A leader that was paused must
// not send events that its successor sent long ago. A failed confirmation is not counted as
// a failure of the receiver. The error is that of the context.
func (p *post) confirm() error {
	for time.Since(p.confirmed) >= freshTerm {
		ctx, cancel := context.WithTimeout(p.ctx, p.cfg.Timeout)
		err := p.term.Confirm(ctx)
		cancel()
		if err == nil {
			p.confirmed = time.Now()
			break
		}
		if err := wait.Sleep(p.ctx, p.cfg.FirstRetry); err != nil {
			return err
		}
	}
	return p.ctx.Err()
}

// try posts an event once. Errors do not contain the URL, which may include a token. after
// is the receiver's Retry-After.
func (p *post) try(e *holdfastv1.Event) (after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.Timeout)
	defer cancel()
	if err := p.open(); err != nil {
		return 0, err
	}
	req, err := p.request(ctx, e)
	if err != nil {
		return 0, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return 0, fmt.Errorf("post: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	switch resp.StatusCode / 100 {
	case 2:
		return 0, nil
	case 3:
		return 0, fmt.Errorf("the receiver answers %s: redirects are not followed, set the webhook to the new URL",
			resp.Status)
	}
	seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	return time.Duration(seconds) * time.Second, fmt.Errorf("the receiver answers %s", resp.Status)
}

// open returns an error if the messages must be encrypted and signed, and are not. The server
// refuses such a webhook, but it may be older than that rule, or of a restored snapshot.
func (p *post) open() error {
	if !p.cfg.RefuseOpen {
		return nil
	}
	plain, unsigned := describe.OpenWebhook(p.hook)
	if why := cmp.Or(plain, unsigned); why != "" {
		return fmt.Errorf("not posted, because --open-webhooks of the peers is refuse: %s", why)
	}
	return nil
}

func (p *post) request(ctx context.Context, e *holdfastv1.Event) (*http.Request, error) {
	cluster := p.state.View().Meta().GetClusterId()
	body, err := encode(cluster, e)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.hook.GetUrl(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("create the request: the URL is invalid")
	}
	id, now := messageID(cluster, e.GetCursor()), time.Now()
	req.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	req.Header.Set("User-Agent", "holdfast")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	if ref := p.hook.GetSecretRef(); ref != "" {
		key, err := p.key(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("sign the message: %w", err)
		}
		req.Header.Set("Webhook-Signature", sign(key, id, now, body))
	}
	return req, nil
}

// key returns the signing key. The secret is resolved for each message, so that a new
// version takes effect at once.
func (p *post) key(ctx context.Context, ref string) ([]byte, error) {
	s, err := p.secrets.Resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	value := s.Values[signingKey]
	if value.Empty() {
		return nil, fmt.Errorf("secret %q has no key %q", ref, signingKey)
	}
	text, coded := strings.CutPrefix(value.Reveal(), keyPrefix)
	if !coded {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("secret %q begins with %s but is not base64 after that", ref, keyPrefix)
	}
	return key, nil
}

// note records the position of the webhook, and the error of the last attempt if it failed.
func (p *post) note(failure string) {
	if p.cursor != p.noted || failure != "" || p.delivered {
		p.record(&internalv1.NoteDelivery{Failures: p.failures, LastError: failure})
	}
}

// record commits a note. If that fails, the next note includes it. Until then, a new leader
// may repeat more events.
func (p *post) record(n *internalv1.NoteDelivery) {
	n.Name, n.Cursor = p.hook.GetName(), p.cursor
	cmd := &internalv1.Command{
		Epoch: p.term.Epoch,
		Op:    &internalv1.Command_NoteDelivery{NoteDelivery: n},
	}
	// A total is counted once, even if the outcome of an earlier command is unknown.
	n.MissedTotal = p.counted + p.missed
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), noteLimit)
	defer cancel()
	p.notedAt = time.Now()
	if _, err := p.node.Apply(ctx, cmd); err != nil {
		p.cfg.Logger.Debug("recording the webhook's position failed",
			"webhook", n.GetName(), "event", n.GetCursor(), "error", err)
		return
	}
	p.noted, p.delivered = n.GetCursor(), false
	p.counted, p.missed = p.counted+p.missed, 0
}
