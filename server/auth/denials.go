package auth

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	maxDenials    = 400                    // kinds of refusals kept, and as many merged: they fit in one command
	denialPause   = 100 * time.Millisecond // minimum time between two reports
	failedPause   = time.Second            // time to collect failed authentications before a report
	mergedPause   = time.Minute            // time to collect merged refusals before a report
	reportTimeout = 5 * time.Second
	waitRecorded  = 2 * time.Second // maximum time that a refused call waits to be recorded
	maxPrincipals = 4096

	// The audit trail holds a fixed number of events, so a caller that is refused all the
	// time must not displace the other events. Each budget is one event per interval
	// after a burst. Refusals beyond the budget are merged, by principal and method, into
	// one event a minute.
	unknownEvery   = 10 * time.Second // all unknown callers together
	principalEvery = time.Second      // each known principal
	eventBurst     = 100
)

// unknownPrincipal is the principal in the audit trail of a caller that failed to
// authenticate.
const unknownPrincipal = "unauthenticated"

// denialKey identifies one kind of refusal. A burst of refusals of one kind is one audit
// event with a count.
type denialKey struct {
	principal, source, peer, method, resource, requestID, outcome, reason, tokenID string
}

func keyOf(e *holdfastv1.AuditEvent) denialKey {
	return denialKey{
		principal: e.GetPrincipal(),
		source:    e.GetSource(),
		peer:      e.GetPeer(),
		method:    e.GetMethod(),
		resource:  e.GetResource(),
		requestID: e.GetRequestId(),
		outcome:   e.GetOutcome(),
		reason:    e.GetReason(),
		tokenID:   e.GetTokenId(),
	}
}

// Denials buffers refusals and writes them to the audit trail, several in one command. It also
// writes new sessions to the state.
// The buffer is bounded. A peer that crashes loses the failed authentications of the last
// second and the merged refusals of the last minute.
type Denials struct {
	report  func(context.Context, *internalv1.RecordDenials) error
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time
	soon    chan struct{}

	sessions *notes

	mu       sync.Mutex
	kept     batch
	merged   batch
	since    time.Time     // of the last report of merged refusals
	reported chan struct{} // closed when the report of the current batch has ended, with or without success
	budgets  *lru.Cache[string, *rate.Limiter]
}

// batch is a list of events in the order of arrival.
type batch struct {
	by    map[denialKey]*holdfastv1.AuditEvent
	order []*holdfastv1.AuditEvent
}

// add counts an event with others of its kind, or appends it. It returns false if the
// batch is full.
func (b *batch) add(e *holdfastv1.AuditEvent) bool {
	k := keyOf(e)
	if old, ok := b.by[k]; ok {
		old.Count += e.GetCount()
		return true
	}
	if len(b.order) >= maxDenials {
		return false
	}
	if b.by == nil {
		b.by = map[denialKey]*holdfastv1.AuditEvent{}
	}
	b.by[k], b.order = e, append(b.order, e)
	return true
}

func newDenials(report func(context.Context, *internalv1.RecordDenials) error, log *slog.Logger, m *metrics) *Denials {
	return &Denials{
		report: report, log: log, metrics: m, now: time.Now,
		reported: make(chan struct{}), soon: make(chan struct{}, 1), budgets: newLRU[*rate.Limiter](maxPrincipals),
	}
}

// note buffers a refusal. The returned channel is closed after the next report. It is nil
// if the refusal was merged with others.
func (d *Denials) note(e *holdfastv1.AuditEvent) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, again := d.kept.by[keyOf(e)]; (again || d.budget(e.GetPrincipal())) && d.kept.add(e) {
		return d.reported
	}
	d.merge(e)
	return nil
}

// budget spends one event of a principal's budget, and reports whether there was one
// left.
func (d *Denials) budget(principal string) bool {
	every := principalEvery
	if principal == unknownPrincipal {
		every = unknownEvery
	}
	return bucket(d.budgets, principal, float64(rate.Every(every)), eventBurst).AllowN(d.now(), 1)
}

// merge counts a refusal without its details: source, resource and request id.
func (d *Denials) merge(e *holdfastv1.AuditEvent) {
	d.metrics.merged.Add(float64(e.GetCount()))
	m := proto.CloneOf(e)
	m.Source, m.Resource, m.RequestId = "", "", ""
	if d.merged.add(m) {
		return
	}
	for _, old := range d.merged.order { // no room: count it with any event of the same outcome
		if old.GetOutcome() == m.GetOutcome() {
			old.Count += m.GetCount()
			return
		}
	}
}

// event returns the audit event of a refusal.
func (d *Denials) event(c *Caller, err *Error) *holdfastv1.AuditEvent {
	return &holdfastv1.AuditEvent{
		At:        timestamppb.New(d.now()),
		Principal: c.Identity.GetPrincipal(),
		Source:    c.Source,
		Peer:      c.Peer,
		Method:    c.Method,
		TokenId:   c.Identity.GetTokenId(),
		Outcome:   outcomeName(err.Code),
		Reason:    err.Reason,
		Count:     1,
	}
}

// unknownCaller returns the caller of a call without valid credentials.
func unknownCaller(source, peer, method string) *Caller {
	return &Caller{
		Identity: &holdfastv1.Identity{Principal: unknownPrincipal}, Source: source, Peer: peer, Method: method,
	}
}

// failed buffers a failed authentication.
func (d *Denials) failed(p *presented, peer string, err *Error) {
	d.note(d.event(unknownCaller(p.source, peer, p.method), err))
}

// limited buffers a change that was refused because its caller exceeded the rate limit.
func (d *Denials) limited(c *Caller, err *Error) { d.note(d.event(c, err)) }

// refused records a refused change before its caller gets the answer. It waits at most
// waitRecorded; after that the refusal stays in the buffer and is reported later.
func (d *Denials) refused(ctx context.Context, c *Caller, resource, requestID string, err *Error) {
	e := d.event(c, err)
	e.Resource, e.RequestId = resource, requestID
	done := d.note(e)
	if done == nil {
		return
	}
	select {
	case d.soon <- struct{}{}:
	default:
	}
	t := time.NewTimer(waitRecorded)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-ctx.Done():
	}
}

// Run reports buffered refusals until ctx ends, and then once more.
func (d *Denials) Run(ctx context.Context) error {
	tick := time.NewTicker(failedPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-d.soon:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = d.flush(last, true) // the peer is stopping: the error has no reader
			return nil
		}
		if err := d.flush(ctx, false); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "writing refused calls to the audit trail failed, will retry", "error", err)
		}
		if err := d.sessions.flush(ctx); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "recording new sessions failed, will retry", "error", err)
		}
		pause := time.NewTimer(denialPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// flush reports the buffered refusals, and the merged ones if they are due or all is
// true. On an error the refusals stay in the buffer. A report whose answer was lost is
// repeated, so a count may be too high, but never too low.
func (d *Denials) flush(ctx context.Context, all bool) error {
	d.mu.Lock()
	events, reported := d.kept.order, d.reported
	if now := d.now(); len(d.merged.order) > 0 && (all || now.Sub(d.since) >= mergedPause) {
		events, d.merged, d.since = append(events, d.merged.order...), batch{}, now
	}
	if len(events) == 0 {
		d.mu.Unlock()
		return nil
	}
	d.kept, d.reported = batch{}, make(chan struct{})
	d.mu.Unlock()
	defer close(reported)

	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err := d.report(ctx, &internalv1.RecordDenials{Events: events})
	if err == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		if !d.kept.add(e) {
			d.merge(e)
		}
	}
	return fmt.Errorf("report %d refusals: %w", len(events), err)
}

// outcomeName returns the name of a code as the audit trail spells it.
func outcomeName(c codes.Code) string {
	switch c {
	case codes.PermissionDenied:
		return "PERMISSION_DENIED"
	case codes.ResourceExhausted:
		return "RESOURCE_EXHAUSTED"
	}
	return "UNAUTHENTICATED"
}
