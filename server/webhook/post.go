package webhook

import (
	"bytes"
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

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/filter"
)

const (
	batch      = 64                     // events that are read at once
	newsPause  = 20 * time.Millisecond  // least time between two looks for events
	freshTerm  = 500 * time.Millisecond // so long a term counts as confirmed
	skipNote   = 4096                   // events that a webhook does not want until it is recorded that it is past them
	noteLimit  = 10 * time.Second       // of one command
	maxAnswer  = 64 << 10               // of a receiver's answer, which nobody reads, so that its connection is used again
	keyPrefix  = "whsec_"               // of keys that are base64 (Standard Webhooks)
	signingKey = "token"                // of a secret
)

// post tells one webhook what happens, for one term or until it is changed.
type post struct {
	*Sender
	lead   context.Context // ends with the term
	ctx    context.Context // of lead; ends with the post
	stop   context.CancelFunc
	done   chan struct{}
	over   bool // when done is closed: it has found its webhook changed
	term   cluster.Term
	hook   *holdfastv1.Webhook
	filter *filter.Filter

	cursor    uint64 // the last event that it was told, or does not want
	noted     uint64 // what of that is recorded
	notedAt   time.Time
	told      bool   // something since then
	missed    uint64 // events that the record does not count yet
	counted   uint64 // missed events that it counts
	failures  uint32
	confirmed time.Time
}

func (s *Sender) start(ctx context.Context, t cluster.Term, name string) *post {
	p := &post{Sender: s, lead: ctx, term: t, done: make(chan struct{})}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.hook, _ = s.state.View().Webhook(name)
	p.cursor, p.noted, p.failures = p.hook.GetCursor(), p.hook.GetCursor(), p.hook.GetFailures()
	p.counted = p.hook.GetMissed()
	return p
}

// tells reports whether it tells a webhook as that is now. One that has ended because its webhook
// was changed does not, also when that was changed back since.
func (p *post) tells(w *holdfastv1.Webhook) bool {
	select {
	case <-p.done:
		return sameHook(p.hook, w) && !p.over
	default:
		return sameHook(p.hook, w)
	}
}

// run ends with its context. Whatever it could not do, it tries again.
func (p *post) run() {
	defer close(p.done)
	var err error
	if p.filter, err = Compile(p.hook.GetFilter()); err != nil { // of a later version; it was read when it was stored
		p.cfg.Logger.Error("webhook is told nothing: its filter is not understood", "webhook", p.hook.GetName(), "error", err)
		return
	}
	for {
		changed := p.state.Changed()
		if err := p.look(); err != nil {
			p.over = errors.Is(err, errChanged)
			break
		}
		if wait(p.ctx, newsPause, changed) != nil {
			break
		}
	}
	if p.lead.Err() == nil && p.failures == 0 { // the next post begins with what is recorded; another leader would refuse it, and each failure was recorded
		p.note("")
	}
}

// errChanged ends a post whose webhook somebody has changed or deleted: the Sender begins another
// one, or none.
var errChanged = errors.New("the webhook was changed")

// look tells of all that has happened. Its error is that of the context, or errChanged.
func (p *post) look() error {
	for {
		view := p.state.View()
		w, ok := view.Webhook(p.hook.GetName())
		if !ok || w.GetDisabled() || !sameHook(p.hook, w) { // what this view has happened after that
			return errChanged
		}
		p.cursor = max(p.cursor, w.GetCursor()) // a restore puts it after all that was before
		if first := view.FirstNews(); p.cursor+1 < first {
			p.skip(first - 1 - p.cursor)
		}
		events, err := view.News(p.cursor, batch)
		if err != nil || len(events) == 0 { // the state is behind what the last leader recorded, for a moment
			break
		}
		for _, e := range events {
			if p.filter.Match(e) {
				if err := p.tell(e); err != nil {
					return err
				}
				p.told = true
			}
			p.cursor = e.GetCursor()
			if time.Since(p.notedAt) >= p.cfg.NoteEvery && (p.told || p.cursor-p.noted >= skipNote) {
				p.note("")
			}
		}
	}
	if p.told && time.Since(p.notedAt) >= p.cfg.NoteEvery {
		p.note("")
	}
	return p.ctx.Err()
}

// skip goes past events that are not kept any more.
func (p *post) skip(n uint64) {
	p.cfg.Logger.Warn("webhook misses events: they are not kept any more", "webhook", p.hook.GetName(), "events", n)
	p.cursor += n
	p.missed += n
	p.record(&internalv1.NoteDelivery{Failures: p.failures})
}

// tell posts an event until the receiver has taken it.
func (p *post) tell(e *holdfastv1.Event) error {
	pause := p.cfg.FirstRetry
	for range min(p.failures, 16) { // a new leader goes on with the pauses where the last one was
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
				p.cfg.Logger.Info("webhook takes events again", "webhook", p.hook.GetName(), "failures", p.failures)
				p.failures, p.cursor = 0, e.GetCursor()
				p.note("")
			}
			return nil
		}
		p.tries.WithLabelValues(p.hook.GetName(), "failed").Inc()
		p.failures++
		p.note(err.Error())
		p.cfg.Logger.Warn("webhook did not take an event: trying again", "webhook", p.hook.GetName(), "event", e.GetCursor(), "failures", p.failures, "error", err)
		if err := p.rest(min(max(pause, after), p.cfg.LastRetry)); err != nil {
			return err
		}
		pause = min(2*pause, p.cfg.LastRetry)
	}
}

// confirm returns when the term is known to go on: a leader that was paused is not to send what the
// next one has long sent. That it is not known is no fault of the receiver's. Its error is that of
// the context.
func (p *post) confirm() error {
	for time.Since(p.confirmed) >= freshTerm {
		ctx, cancel := context.WithTimeout(p.ctx, p.cfg.Timeout)
		err := p.term.Confirm(ctx)
		cancel()
		if err == nil {
			p.confirmed = time.Now()
			break
		}
		if err := p.rest(p.cfg.FirstRetry); err != nil {
			return err
		}
	}
	return p.ctx.Err()
}

func (p *post) rest(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// try posts an event once. No error shows the URL: it may have a token in it. After is how long the
// receiver wants to be left alone.
func (p *post) try(e *holdfastv1.Event) (after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.Timeout)
	defer cancel()
	req, err := p.request(ctx, e)
	if err != nil {
		return 0, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
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
		return 0, fmt.Errorf("the receiver answers %s: redirects are not followed, give the URL that it moved to", resp.Status)
	}
	seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	return time.Duration(seconds) * time.Second, fmt.Errorf("the receiver answers %s", resp.Status)
}

func (p *post) request(ctx context.Context, e *holdfastv1.Event) (*http.Request, error) {
	cluster := p.state.View().Meta().GetClusterId()
	body, err := encode(cluster, e)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.hook.GetUrl(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("make the request: the URL is none")
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

// key opens the secret that signs. It is asked for each time: a new version counts from its next
// message on.
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
		return nil, fmt.Errorf("secret %q begins with %s, and is no base64 after it", ref, keyPrefix)
	}
	return key, nil
}

// note records how far the webhook is, and why the last try failed if it did.
func (p *post) note(failure string) {
	if p.cursor != p.noted || failure != "" || p.told {
		p.record(&internalv1.NoteDelivery{Failures: p.failures, LastError: failure})
	}
}

// record commits a note. One that does not get through is made again with the next: what it says is
// only how little is sent twice.
func (p *post) record(n *internalv1.NoteDelivery) {
	n.Name, n.Cursor = p.hook.GetName(), p.cursor
	cmd := &internalv1.Command{FeatureLevel: fsm.Level1, Epoch: p.term.Epoch, Op: &internalv1.Command_NoteDelivery{NoteDelivery: n}}
	if p.state.View().Has(fsm.Level2) { // a total is counted once, also if the outcome of an earlier command is unknown
		cmd.FeatureLevel, n.MissedTotal = fsm.Level2, p.counted+p.missed
	} else {
		n.Missed = p.missed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), noteLimit)
	defer cancel()
	p.notedAt = time.Now()
	if _, err := p.node.Apply(ctx, cmd); err != nil {
		p.cfg.Logger.Debug("how far a webhook is was not recorded", "webhook", n.GetName(), "event", n.GetCursor(), "error", err)
		return
	}
	p.noted, p.told = n.GetCursor(), false
	p.counted, p.missed = p.counted+p.missed, 0
}
