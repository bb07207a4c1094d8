package fsmtest

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The numbers of records in the filled state, each at least the limit of a command on them.
const (
	workMachines = fsm.MaxWaveMachines
	workRuns     = fsm.MaxAppends
	workTokens   = fsm.MaxDropTokens
	workServices = 2000
	workPools    = 64
	workAgents   = max(fsm.MaxHeartbeats, fsm.MaxExpiries)
)

func workWait() *holdfastv1.Wait {
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_EFFECT, Subject: "power"}
}

func workMachine(i int) string { return fmt.Sprintf("m-%d", i) }
func workRun(i int) string     { return fmt.Sprintf("run-%d", i) }
func workPool(i int) string    { return fmt.Sprintf("pool-%d", i) }
func workToken(i int) string   { return fmt.Sprintf("dead-%d", i) }
func workMAC(i int) string     { return fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255) }

func workService(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// filled returns a state with as many records as commands may name, and large ones. Machine m-0
// has labels, ports and a name in each list up to the limits, machine m-1 has an agent's lease and
// a run with an open attempt.
func filled() *Peer {
	p := NewPeer()
	var batch []*internalv1.Command
	flush := func() {
		for i, r := range p.Propose(batch...) {
			if r.Err != nil {
				panic(fmt.Sprintf("%v: %v", batch[i], r.Err))
			}
		}
		batch = nil
	}
	add := func(op proto.Message) {
		if batch = append(batch, Command(op)); len(batch) == 200 {
			flush()
		}
	}
	gpus := make([]*holdfastv1.Gpu, 1024)
	for i := range gpus {
		gpus[i] = &holdfastv1.Gpu{Id: int32(i), Model: "H100", TotalVramGb: proto.Float64(80),
			AvailableVramGb: proto.Float64(80)}
	}
	for i := range workPools {
		add(&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: workPool(i)}})
		add(&internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: workPool(i), Gpus: gpus}, TtlMs: 30_000})
		add(&internalv1.RegisterProvider{Provider: &holdfastv1.PlatformProvider{
			ProviderId: fmt.Sprint("provider-", i), PoolId: workPool(i)}})
	}
	for i := range workMachines {
		m := &holdfastv1.Machine{MachineId: workMachine(i), Spec: &holdfastv1.MachineSpec{Pool: workPool(i % workPools),
			MacAddresses: []string{workMAC(i)}}, Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_READY}}
		if i == 0 {
			m.Labels = map[string]string{}
			for n := range 256 {
				m.Labels[fmt.Sprint("label-", n)] = "v"
			}
			for n := range 63 {
				m.Spec.MacAddresses = append(m.Spec.MacAddresses, workMAC(1<<20+n))
			}
		}
		add(&internalv1.RegisterMachine{Machine: m})
		if i < workAgents {
			add(&internalv1.RegisterAgent{Agent: &holdfastv1.RegisterAgentRequest{MachineId: workMachine(i),
				PoolName: workPool(i % workPools)}, TtlMs: 30_000})
		}
	}
	for i := range workTokens {
		sum := sha256.Sum256([]byte(workToken(i)))
		add(&internalv1.CreateToken{Token: &internalv1.StoredToken{Sha256: sum[:], Token: &holdfastv1.Token{
			TokenId: workToken(i), Name: workToken(i), Role: holdfastv1.Role_VIEWER}}})
		add(&internalv1.RevokeToken{TokenId: workToken(i)})
	}
	for i := range workServices {
		add(&internalv1.RegisterService{Target: &holdfastv1.ServiceTarget{Id: workService(i),
			ServiceName: fmt.Sprint("s-", i), Host: "h", Port: 80}})
	}
	for i := range fsm.MaxResealed {
		add(workSecret(i))
	}
	add(&internalv1.CreatePlan{Plan: workPlan("plan/steps", "inspect", "power", "ssh")})
	add(&internalv1.CreatePlan{Plan: workParamPlan()})
	add(&internalv1.CreatePlan{Plan: workPlan("plan/install", "repave")})
	add(&internalv1.CreatePlan{Plan: workPlan("plan/unused", "ssh")})
	for i := range workRuns {
		add(&internalv1.StartRun{RunId: workRun(i), MachineId: workMachine(i + 1), RequestId: workRun(i), Type: "REBOOT",
			PlanId: "plan/steps", DefaultTimeoutSeconds: 600, DefaultMaxRetries: 3})
	}
	for i, id := range []string{"plan/params", "plan/reboot"} { // a plan that was run is not replaced
		add(&internalv1.StartRun{RunId: id[5:], MachineId: workMachine(workMachines - 1 - i), RequestId: id, Type: "REBOOT",
			PlanId: id, DefaultTimeoutSeconds: 600})
	}
	add(&internalv1.BeginAttempt{RunId: workRun(0), Step: "inspect", Attempt: 1})
	fillSessions(p, add)
	waved := &internalv1.StartWave{Wave: &holdfastv1.Wave{WaveId: "wave", Type: "REBOOT"}}
	for i := range workMachines {
		waved.MachineIds = append(waved.MachineIds, workMachine(i))
	}
	add(waved)
	flush()
	p.Now = p.Now.Add(1e12)
	do := func(op proto.Message) {
		if r := p.Do(op); r.Err != nil {
			panic(r.Err)
		}
	}
	do(&internalv1.DeregisterPool{PoolId: workPool(0)})
	do(&internalv1.CreateNode{MachineId: "node", MacAddress: workMAC(1 << 21)})
	do(&internalv1.TransitionNode{Id: "node", State: holdfastv1.Node_PENDING})
	do(&internalv1.StartRun{RunId: "install", MachineId: "node", RequestId: "install", PlanId: "plan/install",
		DefaultTimeoutSeconds: 600})
	r, _ := p.View().Run("install")
	do(&internalv1.BeginAttempt{RunId: "install", Step: r.GetCurrentStep(), Attempt: 1})
	do(&internalv1.OpenInstall{RunId: "install", Step: r.GetCurrentStep(), Attempt: 1, Image: "debian"})
	do(&internalv1.BootInstall{MachineId: "node", Sha256: TokenValue("one")})
	return p
}

func workSession(i int) string { return fmt.Sprint("session-", i) }
func workConsole(i int) string { return fmt.Sprint("con-", i) }

// fillSessions adds sessions that will have expired, as many as one principal may have, and console
// sessions with the largest records.
func fillSessions(p *Peer, add func(proto.Message)) {
	for i := range fsm.MaxDropSessions {
		add(&internalv1.NoteSessions{Sessions: []*holdfastv1.Session{{SessionId: workSession(i),
			Principal: fmt.Sprint("user:", i/60), ExpiresAt: timestamppb.New(p.Now.Add(10 * time.Minute))}}})
	}
	for i := range 64 {
		add(&internalv1.NoteSessions{Sessions: []*holdfastv1.Session{{SessionId: fmt.Sprint("own-", i),
			Principal: "user:a", ExpiresAt: timestamppb.New(p.Now.Add(time.Hour))}}})
	}
	add(&internalv1.StartRun{RunId: "console", MachineId: workMachine(workMachines - 3), RequestId: "console",
		PlanId: "plan/console", DefaultTimeoutSeconds: 600})
	output := make([]*holdfastv1.ConsoleOutput, fsm.MaxOutput)
	for i := range output {
		output[i] = &holdfastv1.ConsoleOutput{Data: make([]byte, 200)}
	}
	for i := range fsm.MaxDropConsoles {
		add(&internalv1.OpenConsole{SessionId: workConsole(i), RunId: "console", Record: true})
		for n := range 4 {
			add(&internalv1.RecordConsole{SessionId: workConsole(i), Offset: int64(n) * 216 * fsm.MaxOutput, Output: output})
		}
		add(&internalv1.CloseConsole{SessionId: workConsole(i)})
	}
	add(&internalv1.OpenConsole{SessionId: "open", RunId: "console", Record: true})
}

func workSecret(i int) *internalv1.PutSecret {
	return &internalv1.PutSecret{Secret: &internalv1.StoredSecret{
		Secret: &holdfastv1.Secret{Name: fmt.Sprint("secret-", i), Type: "opaque", Keys: []string{"a"}, Version: 1},
		Sealed: &internalv1.Sealed{KeyId: "key", Ciphertext: []byte("sealed")}}}
}

// workParamPlan returns a plan with as many parameters as a plan may have.
func workParamPlan() *holdfastv1.Plan {
	pl := workPlan("plan/params", "ssh")
	for i := range 50 {
		name := fmt.Sprint("p", i)
		pl.Params = append(pl.Params, &holdfastv1.Param{Name: name, Type: holdfastv1.Param_TEXT, Description: "a text"})
		pl.Steps[0].GetSsh().Params = append(pl.Steps[0].GetSsh().Params, name)
	}
	return pl
}

// workEnumPlan returns a plan with a parameter that has choices.
func workEnumPlan() *holdfastv1.Plan {
	pl := workPlan("plan/new", "ssh", "ssh")
	pl.Steps[1].Name = "last"
	pl.Params = []*holdfastv1.Param{{Name: "p0", Type: holdfastv1.Param_ENUM, Choices: []string{"a"}, Description: "one"}}
	pl.Steps[1].GetSsh().Params = []string{"p0"}
	return pl
}

// workBases returns a command of each kind that the filled state accepts, by the name of its
// field in Command. A kind that is missing here is tried with the values of its fields alone.
func workBases(p *Peer) map[string]proto.Message {
	machine := &holdfastv1.Machine{MachineId: "new", Spec: &holdfastv1.MachineSpec{},
		Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_READY}}
	attempt := func(run string) (string, string, int32) { return run, "inspect", 1 }
	run, step, n := attempt(workRun(0))
	start := &internalv1.StartRun{RunId: "new", MachineId: workMachine(workRuns + 1), RequestId: "new", Type: "REBOOT",
		PlanId: "plan/params", DefaultTimeoutSeconds: 600, Params: map[string]string{}}
	sum := TokenValue("one")
	file := &holdfastv1.Image_File{Sha256: strings.Repeat("a", 64), SizeBytes: 1}
	return map[string]proto.Message{
		"put_peer":    &internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: "p9", MaxFeatureLevel: fsm.FeatureLevel}},
		"remove_peer": &internalv1.RemovePeer{Id: "p9", Denial: &internalv1.PeerAdmission{Id: "p9"}},
		"compare_clocks": &internalv1.CompareClocks{Voters: 3, Readings: []*internalv1.ClockReading{
			{PeerId: "a", At: timestamppb.New(p.Now)}, {PeerId: "b", At: timestamppb.New(p.Now)}}},
		"register_machine": &internalv1.RegisterMachine{Machine: machine},
		"update_machine":   &internalv1.UpdateMachine{Machine: workUpdate(), Paths: []string{"labels"}},
		"set_machine_phase": &internalv1.SetMachinePhase{MachineId: workMachine(0),
			Phase: holdfastv1.MachineStatus_MAINTENANCE},
		"delete_machine": &internalv1.DeleteMachine{MachineId: workMachine(0)},
		"observe_conditions": &internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{{
			MachineId: workMachine(0), Conditions: []*holdfastv1.Condition{{Type: "Reachable", Status: true}}}}},
		"create_plan":   &internalv1.CreatePlan{Plan: workEnumPlan()},
		"delete_plan":   &internalv1.DeletePlan{PlanId: "plan/unused"},
		"release_plan":  &internalv1.ReleasePlan{PlanId: "plan/steps"},
		"start_run":     start,
		"cancel_run":    &internalv1.CancelRun{RunId: workRun(1)},
		"begin_attempt": &internalv1.BeginAttempt{RunId: workRun(1), Step: "inspect", Attempt: 1},
		"note_progress": &internalv1.NoteProgress{RunId: run, Step: step, Attempt: n, Wait: workWait(),
			Log: &internalv1.LogAppend{RunId: run}},
		"end_attempt": &internalv1.EndAttempt{RunId: run, Step: step, Attempt: n, Outcome: holdfastv1.Attempt_SUCCEEDED,
			Log: &internalv1.LogAppend{RunId: run}, Inventory: &holdfastv1.HardwareInventory{}},
		"append_run_logs": &internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{{RunId: run}}},
		"start_wave": &internalv1.StartWave{Wave: &holdfastv1.Wave{WaveId: "new", PlanId: "plan/params",
			Params: map[string]string{}}, MachineIds: []string{workMachine(0)}},
		"advance_wave": &internalv1.AdvanceWave{WaveId: "wave", Start: &internalv1.StartRun{RunId: "new",
			MachineId: workMachine(workRuns + 1), RequestId: "wave", Type: "REBOOT", DefaultTimeoutSeconds: 600}},
		"cancel_wave":  &internalv1.CancelWave{WaveId: "wave"},
		"create_token": workTokenOp(),
		"revoke_token": &internalv1.RevokeToken{TokenId: workToken(0)},
		"drop_tokens":  &internalv1.DropTokens{TokenIds: []string{workToken(0)}},
		"note_sessions": &internalv1.NoteSessions{Sessions: []*holdfastv1.Session{{SessionId: "new", Principal: "user:a",
			ExpiresAt: timestamppb.New(p.Now.Add(time.Hour))}}},
		"end_session":   &internalv1.EndSession{SessionId: workSession(0)},
		"drop_sessions": &internalv1.DropSessions{SessionIds: []string{workSession(0)}},
		"open_console":  &internalv1.OpenConsole{SessionId: "new", RunId: "console"},
		"record_console": &internalv1.RecordConsole{SessionId: "open",
			Output: []*holdfastv1.ConsoleOutput{{Data: []byte("x")}}},
		"close_console": &internalv1.CloseConsole{SessionId: "open"},
		"drop_consoles": &internalv1.DropConsoles{SessionIds: []string{workConsole(0)}},
		"put_secret":    workSecret(1000),
		"reseal_secrets": &internalv1.ResealSecrets{Secrets: []*internalv1.StoredSecret{
			workSecret(0).GetSecret()}, Keys: []*internalv1.SigningKey{workKey(0)}},
		"put_signing_keys": &internalv1.PutSigningKeys{Keys: []*internalv1.SigningKey{workKey(0)}},
		"record_denials":   &internalv1.RecordDenials{Events: []*holdfastv1.AuditEvent{{Outcome: "PERMISSION_DENIED"}}},
		"checkpoint_leases": &internalv1.CheckpointLeases{ClockMs: 1, Leases: []*internalv1.SeenLease{{SeenMs: 1,
			Renewal: &internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_MACHINE,
				Id: workMachine(0)}, Metrics: &holdfastv1.AgentMetrics{FreeGpuCount: 1}}}}},
		"expire_leases": &internalv1.ExpireLeases{ClockMs: 1e9, Leases: []*internalv1.LeaseRef{{
			Kind: internalv1.LeaseRef_MACHINE, Id: workMachine(0), Generation: 1}}},
		"create_agent_machine": &internalv1.CreateAgentMachine{MachineId: "new", Pool: workPool(1), PendingTtlMs: 1000},
		"register_agent": &internalv1.RegisterAgent{Agent: &holdfastv1.RegisterAgentRequest{MachineId: workMachine(0),
			PoolName: workPool(0), Hardware: &holdfastv1.NodeRecord{}}, TtlMs: 1000, EnrollLimit: 1 << 20},
		"create_node": &internalv1.CreateNode{MachineId: "new", MacAddress: workMAC(1<<21 + 1),
			Node: &holdfastv1.NodeRecord{}},
		"update_node": &internalv1.UpdateNode{Id: "node", Node: &holdfastv1.NodeRecord{}, Paths: []string{"tags"}},
		"report_node": &internalv1.ReportNode{MachineId: "new", RunId: "new", Discover: true,
			Report: &holdfastv1.ReportNodeRequest{MacAddress: workMAC(1<<21 + 1), InstallationStatus: "started",
				Facts: &holdfastv1.NodeRecord{}}},
		"create_pool":     &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: workPool(1)}},
		"register_pool":   &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: workPool(1)}, TtlMs: 1000},
		"deregister_pool": &internalv1.DeregisterPool{PoolId: workPool(1)},
		"register_provider": &internalv1.RegisterProvider{Provider: &holdfastv1.PlatformProvider{
			ProviderId: "new", PoolId: workPool(1)}},
		"sweep_pools": &internalv1.SweepPools{PoolIds: []string{workPool(0)}},
		"register_service": &internalv1.RegisterService{Target: &holdfastv1.ServiceTarget{ServiceName: "s"},
			NewId: workService(workServices)},
		"deregister_service": &internalv1.DeregisterService{Target: &holdfastv1.ServiceTarget{ServiceName: "s-1999",
			Host: "h", Port: 80}},
		"report_install": &internalv1.ReportInstall{Sha256: sum, Report: &holdfastv1.ReportInstallRequest{Status: "started",
			Inventory: &holdfastv1.HardwareInventory{}, Facts: &holdfastv1.NodeRecord{}}},
		"put_image": &internalv1.PutImage{Image: &holdfastv1.Image{Name: "new", Arch: "amd64",
			Disk: file, Kernel: proto.CloneOf(file), Initrd: proto.CloneOf(file), Format: holdfastv1.Image_RAW}},
	}
}

func workUpdate() *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: workMachine(0), Labels: map[string]string{"label-0": "w"}}
}

func workTokenOp() *internalv1.CreateToken {
	sum := sha256.Sum256([]byte("new"))
	return &internalv1.CreateToken{Token: &internalv1.StoredToken{Sha256: sum[:], Token: &holdfastv1.Token{
		TokenId: "new", Name: "new", Role: holdfastv1.Role_OPERATOR}}}
}

func workKey(i int) *internalv1.SigningKey {
	return &internalv1.SigningKey{KeyId: fmt.Sprint("key-", i), PublicJwk: []byte("{}"), CreatedAt: &timestamppb.Timestamp{
		Seconds: start}, Sealed: &internalv1.Sealed{KeyId: "key", Ciphertext: []byte("sealed")}}
}

// workPlan returns a plan with steps of the given kinds.
func workPlan(id string, kinds ...string) *holdfastv1.Plan {
	pl := &holdfastv1.Plan{PlanId: id}
	for _, k := range kinds {
		pl.Steps = append(pl.Steps, Step(k))
	}
	return pl
}
