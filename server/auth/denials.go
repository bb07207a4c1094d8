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
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	maxDenials    = 400                    // kinds of refusals that are kept apart, and merged ones; both go into one command
	denialPause   = 100 * time.Millisecond // least time between two reports
	failedPause   = time.Second            // failed authentications wait so long for others
	mergedPause   = time.Minute            // merged refusals wait so long
	reportTimeout = 5 * time.Second
	waitRecorded  = 2 * time.Second // a refusal waits no longer to be recorded
	maxPrincipals = 4096

	// The audit trail keeps so many events and no more: who is refused all the time must not push
	// the others out of it. Beyond these budgets (one event each so often, after a burst) refusals
	// are merged, by principal and method, into one event a minute.
	strangerEvery  = 10 * time.Second // everybody who is not known, together
	principalEvery = time.Second      // each one who is
	eventBurst     = 100
)

// unknownPrincipal stands in the audit trail for who could not be authenticated.
const unknownPrincipal = "unauthenticated"

// denialKey tells refusals apart. Those of one kind that come in a burst are one audit event with a
// count.
type denialKey struct {
	principal, source, peer, method, resource, requestID, outcome, reason, tokenID string
}

func keyOf(e *holdfastv1.AuditEvent) denialKey {
	return denialKey{
		e.GetPrincipal(), e.GetSource(), e.GetPeer(), e.GetMethod(), e.GetResource(), e.GetRequestId(), e.GetOutcome(), e.GetReason(), e.GetTokenId(),
	}
}

// Denials keeps refusals until they are in the audit trail: all of a moment in one command. What is
// kept is bounded. A peer that dies loses failed authentications of the last second, and merged
// refusals of the last minute.
type Denials struct {
	report  func(context.Context, *internalv1.RecordDenials) error
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time
	soon    chan struct{}

	mu       sync.Mutex
	kept     batch
	merged   batch
	since    time.Time     // of the last report of merged ones
	reported chan struct{} // closed when what is kept has been reported, or could not be
	budgets  *lru.Cache[string, *rate.Limiter]
}

// batch is a number of events, in the order in which they came.
type batch struct {
	by    map[denialKey]*holdfastv1.AuditEvent
	order []*holdfastv1.AuditEvent
}

// add counts an event, or takes it as a new one when there is room.
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

// note keeps a refusal. The channel is closed after the next report; it is nil if the refusal was
// merged with others.
func (d *Denials) note(e *holdfastv1.AuditEvent) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, again := d.kept.by[keyOf(e)]; (again || d.budget(e.GetPrincipal())) && d.kept.add(e) {
		return d.reported
	}
	d.merge(e)
	return nil
}

// budget takes one event of a principal's share of the audit trail.
func (d *Denials) budget(principal string) bool {
	every := principalEvery
	if principal == unknownPrincipal {
		every = strangerEvery
	}
	l, ok := d.budgets.Get(principal)
	if !ok {
		l = rate.NewLimiter(rate.Every(every), eventBurst)
		d.budgets.Add(principal, l)
	}
	return l.AllowN(d.now(), 1)
}

// merge keeps a refusal without its particulars.
func (d *Denials) merge(e *holdfastv1.AuditEvent) {
	d.metrics.merged.Add(float64(e.GetCount()))
	m := &holdfastv1.AuditEvent{
		At: e.GetAt(), Principal: e.GetPrincipal(), Peer: e.GetPeer(), Method: e.GetMethod(), Outcome: e.GetOutcome(), Reason: e.GetReason(),
		TokenId: e.GetTokenId(), Count: e.GetCount(),
	}
	if d.merged.add(m) {
		return
	}
	for _, old := range d.merged.order { // there is no room: any of them stands for it
		if old.GetOutcome() == m.GetOutcome() {
			old.Count += m.GetCount()
			return
		}
	}
}

// failed keeps a failed authentication: by source, method and reason.
func (d *Denials) failed(p *presented, peer string, err *Error) {
	d.note(&holdfastv1.AuditEvent{
		At: timestamppb.New(d.now()), Principal: unknownPrincipal, Source: p.source, Peer: peer, Method: p.method,
		Outcome: outcome(err.Code), Reason: err.Reason, Count: 1,
	})
}

// limited keeps a change that was refused because its caller makes too many.
func (d *Denials) limited(c *Caller, err *Error) {
	d.note(&holdfastv1.AuditEvent{
		At: timestamppb.New(d.now()), Principal: c.Identity.GetPrincipal(), Source: c.Source, Peer: c.Peer, Method: c.Method, TokenId: c.Identity.GetTokenId(),
		Outcome: outcome(err.Code), Reason: err.Reason, Count: 1,
	})
}

// refused puts a refused change on record, before its caller is answered. It gives up after a
// while: the refusal stays kept, and is reported later.
func (d *Denials) refused(ctx context.Context, c *Caller, resource, requestID string, err *Error) {
	done := d.note(&holdfastv1.AuditEvent{
		At: timestamppb.New(d.now()), Principal: c.Identity.GetPrincipal(), Source: c.Source, Peer: c.Peer, Method: c.Method, TokenId: c.Identity.GetTokenId(),
		Resource: resource, RequestId: requestID, Outcome: outcome(err.Code), Reason: err.Reason, Count: 1,
	})
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

// Run reports what is kept until ctx ends, and once more then.
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
			_ = d.flush(last, true) // the peer stops: nobody is left to tell
			return nil
		}
		if err := d.flush(ctx, false); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "refused calls are not in the audit trail yet: trying again", "error", err)
		}
		pause := time.NewTimer(denialPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// flush reports what is kept, and what was merged when it is time for that. What could not be
// reported stays; a report whose answer got lost is made again, so that a count may be too high,
// never too low.
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

// outcome spells a code as the audit trail does.
func outcome(c codes.Code) string {
	switch c {
	case codes.PermissionDenied:
		return "PERMISSION_DENIED"
	case codes.ResourceExhausted:
		return "RESOURCE_EXHAUSTED"
	}
	return "UNAUTHENTICATED"
}
