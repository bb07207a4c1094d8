package mutant

import "github.com/holdfast-metal/holdfast/test/robustness/fault"

// Mutants returns all mutants.
func Mutants() []Mutant {
	all := []Mutant{
		{
			Name: "verifyleader",
			Breaks: "a linearizable read confirms the term with a majority; raft.VerifyLeader accepts older " +
				"acknowledgements",
			Scenario: pausedLeader(),
			Patches: []Patch{{"cluster/internal/terms/terms.go",
				"if err := t.confirmer.Confirm(ctx, term, ackedBy); err != nil {",
				"if err := t.raft.(interface{ VerifyLeader() raft.Future }).VerifyLeader().Error(); err != nil {"}},
		},
		{
			Name: "localreads", Breaks: "a linearizable read on a follower waits for the leader's index",
			Scenario: readAfterWrite(),
			Patches: []Patch{{"cluster/internal/route/serve.go",
				"index, err := c.rt.reader.FromLeader(ctx)",
				"index, err := c.rt.applied(), error(nil)"}},
		},
		{
			Name: "nodedup", Breaks: "a request id names one run permanently",
			Scenario: replay(),
			Patches: []Patch{{"fsm/internal/runs/start.go",
				"if run, ok := ByRequest(t.State, c.GetMachineId(), c.GetRequestId()); ok {",
				"if run, ok := ByRequest(t.State, c.GetMachineId(), c.GetRequestId()); ok && run.GetFinishedAt() == nil {"}},
		},
		{
			Name:     "checkthenact",
			Breaks:   "one active run per machine is a compare-and-set in the state, not a check in a handler",
			Scenario: burst(),
			Patches: []Patch{
				{"fsm/internal/runs/start.go",
					"if run := m.GetStatus().GetActiveRunId(); run != \"\" {\n" +
						"\t\treturn refusal.New(refusal.FailedPrecondition, refusal.ReasonActiveRun,\n" +
						"\t\t\t\"machine %q has the active run %s: wait",
					"if run := m.GetStatus().GetActiveRunId(); run == \"never\" {\n" +
						"\t\treturn refusal.New(refusal.FailedPrecondition, refusal.ReasonActiveRun,\n" +
						"\t\t\t\"machine %q has the active run %s: wait"},
				{"server/internal/startrun/prepare.go",
					"\treturn s.checkCapabilities(ctx, start, plan)",
					"\tif m, ok := s.State.View().Machine(start.GetMachineId()); ok && m.GetStatus().GetActiveRunId() != \"\" {\n" +
						"\t\tif _, known := s.State.View().RunByRequest(start.GetMachineId(), start.GetRequestId()); !known {\n" +
						"\t\t\treturn &fsm.Error{Code: fsm.FailedPrecondition, Reason: \"ACTIVE_RUN\", Message: \"busy\", " +
						"Meta: map[string]string{\"run_id\": m.GetStatus().GetActiveRunId()}}\n" +
						"\t\t}\n\t}\n" +
						"\treturn s.checkCapabilities(ctx, start, plan)"},
			},
		},
		{
			Name: "noepoch", Breaks: "the state refuses commands of a former leader",
			Scenario: staleCommands().scenario(),
			Patches: []Patch{{"fsm/command.go",
				"c.needsEpoch && e != now {",
				"c.needsEpoch && e > now {"}},
		},
		{
			Name: "actbeforeintent", Breaks: "the intent is committed before the effect",
			Scenario: dieAfterEffect(),
			Patches: []Patch{
				{"executor/runs/attempt.go", "\terr = action(attemptCtx)", "\terr = acted"},
				{"executor/runs/attempt.go", "\ta.runner.cfg.Boundary(BeforeIntent, a.Kind)\n",
					"\ta.runner.cfg.Boundary(BeforeIntent, a.Kind)\n\tacted := action(attemptCtx)\n"},
			},
		},
		{
			Name: "nosettle", Breaks: "a leader that adopts an attempt observes before it acts",
			Scenario: dieAfterEffect(),
			Patches: []Patch{{"executor/step/poll.go",
				"\tif !a.Adopted {\n\t\treturn nil\n\t}\n\treturn a.Poll(ctx, effect(\"effect of the earlier leader",
				"\tif a.Adopted {\n\t\treturn nil\n\t}\n\treturn a.Poll(ctx, effect(\"effect of the earlier leader"}},
		},
		{
			Name: "noconfirm", Breaks: "a majority confirms the term right before an effect",
			Scenario: stoppedExecutor("effect-due"),
			Patches: []Patch{{"executor/fence/fence.go",
				"if err := f.Confirm(ctx); err != nil {\n\t\treturn time.Time{}, err",
				"if err := error(nil); err != nil {\n\t\treturn time.Time{}, err"}},
		},
		{
			Name: "nonotafter", Breaks: "an effect is sent soon after its term was confirmed, or not at all",
			Scenario: stoppedExecutor("term-confirmed"),
			Patches:  []Patch{{"providers/notafter.go", "return context.WithValue(ctx, notAfterKey{}, t)", "return ctx"}},
		},
		{
			Name: "lostlog", Breaks: "a leader that adopts a command continues its output where the record ends",
			Scenario: dieWhileLogging(),
			Patches: []Patch{{"executor/step/ssh.go",
				"\t\t\ta.Log.Write(o.Stream, o.Data)\n",
				"\t\t\tif !a.Adopted || offset > a.logged() {\n\t\t\t\ta.Log.Write(o.Stream, o.Data)\n\t\t\t}\n"}},
		},
		{
			Name: "logtwice", Breaks: "a leader that adopts a command does not log recorded output again",
			Scenario: adoptOutput().scenario(),
			Patches: []Patch{{"executor/step/ssh.go", "token, offset := a.Op.Token(), a.logged()",
				"token, offset := a.Op.Token(), 0*a.logged()"}},
		},
		{
			Name: "tokenofleader", Breaks: "the identity of a command is its attempt, independent of the leader",
			Scenario: dieWhileRunning(),
			Patches: []Patch{
				{"executor/step/ssh.go", "token, offset := a.Op.Token(), a.logged()",
					"token, offset := a.Op.Token()+\"-\"+strconv.FormatUint(a.Op.Epoch, 10), a.logged()"},
				{"executor/step/ssh.go", "exec.StartCommand(ctx, a.Op, a.Machine, a.Op.Token(), cmd)",
					"exec.StartCommand(ctx, a.Op, a.Machine, a.Op.Token()+\"-\"+strconv.FormatUint(a.Op.Epoch, 10), cmd)"},
			},
		},
		{
			Name:     "nosettlebmc",
			Breaks:   "a leader that adopts an attempt waits as long as the BMC may take to show a press",
			Scenario: dieAfterPress(),
			Patches: []Patch{{"executor/step/poll.go",
				"\tif !a.Adopted {\n\t\treturn nil\n\t}\n\treturn a.Poll(ctx, effect(\"effect of the earlier leader",
				"\tif a.Adopted {\n\t\treturn nil\n\t}\n\treturn a.Poll(ctx, effect(\"effect of the earlier leader"}},
		},
		{
			Name: "leftsession", Breaks: "a leader ends the session that the former leader left on a BMC",
			Scenario: killWithSession(),
			Patches: []Patch{{"providers/bmc/internal/redfish/session.go",
				"former, owed, err := c.cfg.Record.Begin(ctx, began)",
				"_, owed, err := c.cfg.Record.Begin(ctx, began)\n\tformer := \"\""}},
		},
		{
			Name: "answerisevidence", Breaks: "the answer of a BMC to a press is not evidence",
			Scenario: lie(),
			Patches: []Patch{{"executor/step/press.go",
				"\tif lost == nil {\n\t\treturn a.Poll(ctx, accepted(what, string(action)), shown)\n\t}",
				"\tif lost == nil {\n\t\t_ = accepted // it is used\n\t\treturn nil\n\t}"}},
		},
		{
			Name: "unadmittedvote", Breaks: "a peer that lost its data does not vote before it has caught up",
			Scenario: wipedVoter(),
			Patches: []Patch{{"cluster/internal/transport/transport.go",
				"if !g.admitted.Load() && refuse(rpc) {",
				"if g == nil && refuse(rpc) {"}},
		},
		{
			Name:     "earlyexpiry",
			Breaks:   "a new leader extends leases by the time that recorded heartbeats may lag",
			Scenario: answeredFromMemory(),
			Patches:  []Patch{{"executor/lease/entry.go", ".LowLoad) + e.slack()\n", ".LowLoad)\n"}},
		},
		{
			Name: "deafclock", Breaks: "the lease clock stops while there is no leader",
			Scenario: allDead(),
			Patches: []Patch{{"executor/lease/term.go",
				"\tbegan := time.Duration(view.LeaseClock()) * time.Millisecond\n",
				"\tbegan := time.Duration(view.LeaseClock()) * time.Millisecond\n\tvar newest time.Time\n\tfor l := range " +
					"view.Leases() {\n" +
					"\t\tif at := l.GetLastSeen().AsTime(); at.After(newest) {\n\t\t\tnewest = at\n\t\t}\n\t}\n" +
					"\tif !newest.IsZero() {\n\t\tbegan += time.Since(newest)\n\t}\n"}},
		},
		{
			Name:     "missedexpiry",
			Breaks:   "a new leader also expires leases that it never received a heartbeat for",
			Scenario: inherited(),
			Patches: []Patch{{"executor/lease/term.go", "\t\tts.order.Push(n)\n\t}\n\theap.Init(&ts.order)\n",
				"\t}\n\theap.Init(&ts.order)\n"}},
		},
		{
			Name: "lonereads", Breaks: "a peer without a known leader answers no linearizable read",
			Scenario: underFault("quorum-loss", `without a majority a linearizable read was answered with OK`),
			Patches: []Patch{{"cluster/internal/route/serve.go",
				"\tid, err := c.rt.reader.Server(ctx, hold, c.hopped)\n\tif err != nil {\n\t\treturn nil, notApplied, err\n\t}\n",
				"\tid, err := c.rt.reader.Server(ctx, hold, c.hopped)\n\tif err != nil {\n" +
					"\t\treply, err := c.local(ctx, atLeast)\n\t\treturn reply, final, err\n\t}\n"}},
		},
		{
			Name: "staysvoter", Breaks: "a peer that left is not a voter",
			Scenario: underFault("membership", `remove peer \S+ \(the leader: \w+\)`),
			Patches: []Patch{{"cluster/internal/members/remove.go",
				"if err := wait.For(ctx, ms.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout)); err != nil {",
				"if err := ctx.Err(); wait.For != nil && err != nil {"}},
		},
		{
			Name: "oldca", Breaks: "a CA that was removed from the file is not trusted",
			Scenario: underFault("rotate-ca", fault.AcceptsOldCA),
			Patches: []Patch{
				{"cluster/peertls/files.go", "s := &set{roots: x509.NewCertPool()}", "s := &set{roots: everyRoot}"},
				{File: "cluster/peertls/everyroot.go",
					After: "package peertls\n\nimport \"crypto/x509\"\n\nvar everyRoot = x509.NewCertPool()\n"},
			},
		},
		{
			Name: "oldgossip", Breaks: "a gossip key that was removed from the file is not accepted",
			Scenario: underFault("rotate-gossip-key", fault.AcceptsOldGossipKey),
			Patches: []Patch{{"cluster/internal/gossip/keys.go", "if err := k.ring.RemoveKey(key); err != nil {",
				"if err := error(nil); err != nil {"}},
		},
	}
	for _, u := range ofRecord() {
		all = append(all, u.mutant())
	}
	return all
}
