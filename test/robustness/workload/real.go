package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
)

// hostMachines is the number of machines on the site's host: their commands share it.
const hostMachines = 2

// HostPlan runs a command on a real host.
const HostPlan = "rb-host"

// The plans of machines behind BMCs.
const (
	OffPlan   = "rb-power-off"
	CyclePlan = "rb-power-cycle"

	planOn   = "rb-power-on"
	planBoot = "rb-power-boot"
)

const hostLines = 12

// hostScript returns a script that records its start, and prints for more than a second.
func hostScript(starts string) string {
	return fmt.Sprintf("echo \"$HOLDFAST_TOKEN\" >>'%s'\ni=0\nwhile [ $i -lt %d ]; do\n  i=$((i + 1))\n"+
		"  echo \"line $i\"\n  echo \"err $i\" >&2\n  sleep 0.1\ndone\n", starts, hostLines)
}

// HostOutput returns the output of a command of HostPlan on each stream.
func HostOutput() (stdout, stderr string) {
	var out, err strings.Builder
	for i := range hostLines {
		fmt.Fprintf(&out, "line %d\n", i+1)
		fmt.Fprintf(&err, "err %d\n", i+1)
	}
	return out.String(), err.String()
}

// Real is the machines that are not fake. All workloads of a cluster share them, so that
// all observations of BMCs and hosts can be compared with the record.
type Real struct {
	BMCs  []string // machines, in the order of the site's BMCs
	Hosts []string // machines on the site's host
	Site  *site.Site
}

func realOf(s *site.Site) *Real {
	if s == nil {
		return nil
	}
	r := &Real{Site: s}
	for i := range s.BMCs {
		r.BMCs = append(r.BMCs, fmt.Sprintf("rb-bmc-%d", i))
	}
	if s.SSH != nil {
		for i := range hostMachines {
			r.Hosts = append(r.Hosts, fmt.Sprintf("rb-host-%d", i))
		}
	}
	return r
}

// plans returns the plans of real machines.
func (r *Real) plans() []*holdfastv1.Plan {
	power := func(id, action string) *holdfastv1.Plan {
		s := hurried(step(action))
		s.Kind = &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: action, Force: true}}
		return &holdfastv1.Plan{PlanId: id, Steps: []*holdfastv1.Step{s}}
	}
	var all []*holdfastv1.Plan
	if len(r.BMCs) > 0 {
		all = append(all, power(planOn, "on"), power(OffPlan, "off"), power(CyclePlan, "cycle"),
			&holdfastv1.Plan{
				PlanId: planBoot,
				Steps:  []*holdfastv1.Step{hurried(netboot("boot", "PXE")), hurried(reboot("restart"))},
			})
	}
	if len(r.Hosts) > 0 {
		s := ssh("count", hostScript(r.Site.Starts()))
		s.MaxRetries = proto.Int32(0)
		all = append(all, &holdfastv1.Plan{PlanId: HostPlan, Steps: []*holdfastv1.Step{s}})
	}
	return all
}

// Presses returns what a step of a plan does with the power of a machine behind a BMC: on,
// off or cycle.
func Presses(planID, stepName string) (action string, may bool) {
	switch {
	case planID == planOn:
		return "on", true
	case planID == OffPlan:
		return "off", true
	case planID == CyclePlan, planID == planBoot && stepName == "restart":
		return "cycle", true
	}
	return "", false
}

// hurried prepares a step for a lying BMC: the attempt does not wait, and the next one
// follows soon.
func hurried(s *holdfastv1.Step) *holdfastv1.Step {
	s.TimeoutSeconds = 12
	return s
}

// prepare returns an operator's preparations for such machines.
func (r *Real) prepare() []func(context.Context, peer) error {
	var todo []func(context.Context, peer) error
	secret := func(name, kind string, values map[string]string) {
		todo = append(todo, func(ctx context.Context, at peer) error {
			_, err := at.secrets.PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: name, Type: kind, Values: values})
			return err
		})
	}
	machine := func(id string, spec *holdfastv1.MachineSpec) {
		todo = append(todo, func(ctx context.Context, at peer) error {
			_, err := at.machines.RegisterMachine(ctx,
				&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id, Spec: spec}})
			if status.Code(err) == codes.AlreadyExists {
				return nil // an earlier workload has registered it
			}
			return err
		})
	}
	if len(r.BMCs) > 0 {
		secret("rb/bmc", "bmc", map[string]string{"username": site.User, "password": site.Password})
	}
	for i, id := range r.BMCs {
		machine(id, &holdfastv1.MachineSpec{Provider: site.BMCs, BmcEndpoint: r.Site.BMCs[i].Endpoint,
			BmcCredentialsRef: "rb/bmc"})
	}
	if host := r.Site.SSH; host != nil {
		secret("rb/host", "ssh", map[string]string{"username": host.User, "private_key": host.PrivateKey})
		for _, id := range r.Hosts {
			machine(id, &holdfastv1.MachineSpec{Provider: site.Hosts, SshEndpoint: host.Addr,
				SshCredentialsRef: "rb/host", SshHostKeys: []string{host.HostKey}})
		}
	}
	for _, p := range r.plans() {
		todo = append(todo, func(ctx context.Context, at peer) error {
			_, err := at.plans.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: p})
			if status.Code(err) == codes.AlreadyExists {
				return errForeign
			}
			return err
		})
	}
	return todo
}

// PrepareReal registers the machines and plans of a site, for a test that makes its own
// calls. All peers must be healthy.
func PrepareReal(ctx context.Context, rec *Recorder, s *site.Site) (*Real, error) {
	r := realOf(s)
	for _, do := range r.prepare() {
		if err := do(ctx, rec.peers[0]); err != nil {
			return nil, fmt.Errorf("prepare the machines of the site: %w", err)
		}
	}
	return r, nil
}

// drive makes one run after the other on each real machine, until ctx ends.
func (w *Workload) drive(ctx context.Context) {
	if w.real == nil {
		return
	}
	var wg sync.WaitGroup
	each := func(ids []string, plans []string, salt int) {
		for i, id := range ids {
			rng := w.rng(salt + i)
			wg.Go(func() {
				for n := 0; wait.Sleep(ctx, time.Duration(100+rng.IntN(300))*time.Millisecond) == nil; n++ {
					w.driveOne(ctx, id, plans[rng.IntN(len(plans))], salt+i, n, rng)
				}
			})
		}
	}
	each(w.real.BMCs, []string{planOn, OffPlan, CyclePlan, CyclePlan, planBoot}, 7000)
	each(w.real.Hosts, []string{HostPlan}, 8000)
	wg.Wait()
}

// driveOne starts a run and waits for its end; one of ten is canceled.
func (w *Workload) driveOne(ctx context.Context, id, plan string, client, n int, rng *rand.Rand) {
	op := Op{
		Client:  client,
		Peer:    rng.IntN(len(w.rec.peers)),
		Machine: id,
		Plan:    plan,
		Request: fmt.Sprintf("%s-%d-%d", w.prefix, client, n),
	}
	run := w.startReal(ctx, op)
	if run == "" {
		return
	}
	if plan == HostPlan {
		w.tails.begin(run)
	}
	call := Op{Client: client, Machine: id, Run: run}
	if rng.IntN(10) == 0 && wait.Sleep(ctx, time.Duration(rng.IntN(1000))*time.Millisecond) == nil {
		call.Peer = rng.IntN(len(w.rec.peers))
		w.rec.CancelRun(context.WithoutCancel(ctx), call, 3*time.Second)
	}
	for wait.Sleep(ctx, 250*time.Millisecond) == nil {
		call.Peer = rng.IntN(len(w.rec.peers))
		if seen := w.rec.GetRun(context.WithoutCancel(ctx), call, 3*time.Second); seen.Outcome == OK && seen.Got.Ended {
			return
		}
	}
}

// startReal starts a run. If the outcome is unknown, it retries on another peer.
func (w *Workload) startReal(ctx context.Context, op Op) string {
	for ctx.Err() == nil {
		done := w.rec.StartRun(context.WithoutCancel(ctx), op, 3*time.Second)
		switch done.Outcome {
		case OK:
			return done.Got.ID
		case Refused:
			return ""
		case NotApplied, Unknown:
		}
		op.Peer = (op.Peer + 1) % len(w.rec.peers)
		_ = wait.Sleep(ctx, 50*time.Millisecond)
	}
	return ""
}

// rest brings each machine behind a BMC to the state of its last run. No fault is active,
// so each of these runs has to succeed.
func (w *Workload) rest(ctx context.Context) error {
	if w.real == nil {
		return nil
	}
	errs, began := make([]error, len(w.real.BMCs)), time.Now()
	var wg sync.WaitGroup
	for i, id := range w.real.BMCs {
		plan := []string{planOn, OffPlan, CyclePlan}[(i+int(w.cfg.Seed))%3]
		wg.Go(func() { errs[i] = w.restOne(ctx, id, plan) })
	}
	wg.Wait()
	if s, err := w.real.summary(ctx); err == nil {
		w.target.Log.Info("machines that are not fake are at rest",
			"after", time.Since(began).Round(time.Millisecond), "seen", s)
	}
	return errors.Join(errs...)
}

// summary describes the observations of BMCs and the host.
func (r *Real) summary(ctx context.Context) (string, error) {
	presses, ignored, logins := 0, 0, 0
	for _, b := range r.Site.BMCs {
		seen, err := b.Seen(ctx)
		if err != nil {
			return "", err
		}
		logins += seen.Logins
		for _, e := range seen.Effects {
			if e.Name == "reset" {
				presses++
			}
			if e.Ignored {
				ignored++
			}
		}
	}
	starts, err := os.ReadFile(r.Site.Starts())
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	return fmt.Sprintf("%d presses, of which %d were ignored, %d logins, %d commands", presses, ignored, logins,
		strings.Count(string(starts), "\n")), nil
}

func (w *Workload) restOne(ctx context.Context, id, plan string) error {
	run := w.startReal(ctx, Op{Client: 9000, Machine: id, Plan: plan, Request: w.prefix + "-rest"})
	if run == "" {
		return fmt.Errorf("the last run of %s, of %s, was refused", id, plan)
	}
	for peer := 0; ; peer++ {
		call, cancel := context.WithTimeout(ctx, 3*time.Second)
		r, err := w.rec.peers[peer%len(w.rec.peers)].runs.GetRun(call, &holdfastv1.GetRunRequest{RunId: run})
		cancel()
		if err == nil && SeenRun(r).Ended {
			if r.GetPhase() != holdfastv1.Run_SUCCEEDED {
				return fmt.Errorf("the last run of %s, %s of %s, is %s although no fault is active: %v",
					id, run, plan, r.GetPhase(), r.GetError())
			}
			return nil
		}
		if werr := wait.Sleep(ctx, 100*time.Millisecond); werr != nil {
			return fmt.Errorf("wait for the last run of %s, which waits for %q: %w", id, r.GetWait().GetSentence(),
				errors.Join(err, werr))
		}
	}
}
