package demo

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// board holds the current state of the demo. Its tasks update it, and the display reads views of
// it.
type board struct {
	mu      sync.Mutex
	now     func() time.Time
	started time.Time
	v       view
	index   map[string]int // of a machine in v.Machines
	known   []recorded     // of each machine: the counts for which there are events
	quarter int            // the last quarter of the steps for which there is an event

	adoptions int       // index of the event with the number of adopted attempts, or -1
	adoptedAt time.Time // when that number last changed

	dead, successor string // the killed leader and its successor

	killAt   int           // steps done at which half opens
	half     chan struct{} // closed when killAt steps are done
	finished chan struct{} // closed when all runs have ended
}

// recorded counts the failed attempts of a run, and those that a new leader adopted.
type recorded struct{ failed, adopted int }

// killShare is the percentage of steps done at which the leader is killed: at the second step of
// five, most machines are between power off and power on.
const killShare = 36

func newBoard(machines []*holdfastv1.Machine, now func() time.Time) *board {
	b := &board{
		now:       now,
		started:   now(),
		index:     make(map[string]int, len(machines)),
		known:     make([]recorded, len(machines)),
		adoptions: -1,
		half:      make(chan struct{}),
		finished:  make(chan struct{}),
	}
	b.v.Machines = make([]machineView, len(machines))
	for i, m := range machines {
		b.index[m.GetMachineId()] = i
		b.v.Machines[i].ID = m.GetMachineId()
	}
	return b
}

// plan sets the steps. It is called before the first run.
func (b *board) plan(p *holdfastv1.Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.v.Steps = nil
	for _, s := range p.GetSteps() {
		b.v.Steps = append(b.v.Steps, s.GetName())
	}
	total := len(b.v.Machines) * len(b.v.Steps)
	b.killAt = (total*killShare + 99) / 100
}

// run sets the state of a run. States of one run arrive in order.
func (b *board) run(r *holdfastv1.Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, ok := b.index[r.GetMachineId()]
	if !ok {
		return
	}
	m, known := &b.v.Machines[i], &b.known[i]
	wasDone, wasEnded := m.Done, m.ended()
	m.Phase, m.Step, m.Waiting = r.GetPhase(), r.GetCurrentStep(), r.GetWaitingFor()
	m.Error = r.GetError().GetMessage()
	m.Done, m.Attempt, m.Adopted = 0, 0, false
	var is recorded
	var last string // the last failure
	for _, s := range r.GetSteps() {
		if s.GetState() == holdfastv1.StepStatus_SUCCEEDED {
			m.Done++
		}
		for _, a := range s.GetAttempts() {
			if len(a.GetEpochs()) > 1 {
				is.adopted++
			}
			if a.GetOutcome() == holdfastv1.Attempt_FAILED {
				is.failed++
				last = fmt.Sprintf("%s %s: %s (attempt %d)", m.ID, s.GetName(), short(a.GetError(), m.ID),
					a.GetNumber())
			}
			if s.GetName() == r.GetCurrentStep() {
				m.Attempt, m.Adopted = a.GetNumber(), len(a.GetEpochs()) > 1
				m.Failure = ""
				if a.GetOutcome() == holdfastv1.Attempt_FAILED {
					m.Failure = short(a.GetError(), m.ID)
				}
			}
		}
	}
	m.Retries = is.failed
	if m.ended() {
		m.Took = r.GetFinishedAt().AsTime().Sub(r.GetCreatedAt().AsTime())
	}
	if is.failed > known.failed && m.Phase == holdfastv1.Run_RUNNING {
		b.add(event{Kind: warning, Text: last, Retry: true})
	}
	if m.Phase == holdfastv1.Run_FAILED && !wasEnded {
		b.add(event{Kind: bad, Text: fmt.Sprintf("%s: run %s failed: %s", m.ID, r.GetRunId(), m.Error)})
	}
	b.addAdopted(is.adopted - known.adopted)
	*known = is
	b.v.Done += m.Done - wasDone
	if m.ended() && !wasEnded {
		b.v.Ended++
	}
	b.milestones()
}

// short removes the parts of an error that the board shows elsewhere.
func short(text, machine string) string { return strings.ReplaceAll(text, " of "+machine+":", ":") }

// addAdopted adds to the number of attempts that a new leader adopted.
func (b *board) addAdopted(n int) {
	if n > 0 {
		b.v.Adopted += n
		b.adoptedAt = b.now()
		b.showAdopted()
	}
}

// showAdopted updates the event with the number of adopted attempts, which follows the event with
// the new leader.
func (b *board) showAdopted() {
	if b.successor == "" || b.v.Adopted == 0 {
		return
	}
	if b.adoptions < 0 {
		b.adoptions = len(b.v.Events)
		b.add(event{Kind: good})
	}
	b.v.Events[b.adoptions].Text = fmt.Sprintf("%s adopts %s of %s", b.successor,
		plural(b.v.Adopted, "attempt", "attempts"), b.dead)
}

// died records that a leader was killed, and the progress at that time.
func (b *board) died(id, at string) {
	b.peer(id, killed)
	b.leader("")
	b.say(bad, "leader %s killed with SIGKILL at %s", id, at)
}

// succeeded records the new leader, and the time without acknowledged writes.
func (b *board) succeeded(dead, leader string, took time.Duration) {
	b.leader(leader)
	b.say(good, "%s leads: writes paused for %d ms", leader, took.Milliseconds())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead, b.successor = dead, leader
	b.showAdopted()
}

// milestones adds events of progress and closes the channels half and finished when they are due.
func (b *board) milestones() {
	total := b.v.total()
	if total == 0 {
		return
	}
	if q := 4 * b.v.Done / total; q > b.quarter && q < 4 {
		b.quarter = q
		b.add(event{Text: fmt.Sprintf("%d %% done: %d of %d steps", 25*q, b.v.Done, total), Quiet: true})
	}
	closeIf(b.half, b.v.Done >= b.killAt)
	closeIf(b.finished, b.v.Ended == len(b.v.Machines))
}

// closeIf closes a channel if due is true and it is not closed yet.
func closeIf(c chan struct{}, due bool) {
	select {
	case <-c:
	default:
		if due {
			close(c)
		}
	}
}

// say adds an event.
func (b *board) say(k kind, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(event{Kind: k, Text: fmt.Sprintf(format, args...)})
}

// add adds an event. The caller holds the lock.
func (b *board) add(e event) {
	e.At = b.now().Sub(b.started)
	b.v.Events = append(b.v.Events, e)
}

// peers sets the peers.
func (b *board) peers(ids ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.v.Peers = nil
	for _, id := range ids {
		b.v.Peers = append(b.v.Peers, peerView{ID: id, State: starting})
	}
}

// peer sets the state of a peer.
func (b *board) peer(id string, s peerState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.v.Peers {
		if b.v.Peers[i].ID == id {
			b.v.Peers[i].State = s
		}
	}
}

// leader sets the leader; "" means none.
func (b *board) leader(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.v.Peers {
		p := &b.v.Peers[i]
		p.Leader = p.ID == id && p.State != killed
	}
}

// progress returns the numbers of finished steps and of all steps.
func (b *board) progress() (done, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.v.Done, b.v.total()
}

// elapsed returns the time since the start.
func (b *board) elapsed() time.Duration { return b.now().Sub(b.started) }

// settle is the time without a change after which the number of adopted attempts counts as final,
// for displays that cannot correct it.
const settle = 1500 * time.Millisecond

// view returns a copy of the current state.
func (b *board) view() view {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.v
	v.Elapsed = b.now().Sub(b.started)
	v.Machines, v.Peers, v.Events = slices.Clone(v.Machines), slices.Clone(v.Peers), slices.Clone(v.Events)
	if b.adoptions >= 0 && v.Ended < len(v.Machines) && b.now().Sub(b.adoptedAt) < settle {
		v.Events[b.adoptions].Unsettled = true
	}
	return v
}
