package workload

import (
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TalkScript is the script of runs of the plan "talk": short, with a log that arrives in
// pieces.
const TalkScript = "seq 40\nsleep 0.15\nseq 40\nsleep 0.15\nseq 40\n"

// Talk reports whether a plan runs TalkScript.
func Talk(planID string) bool { return planID == "rb-talk" }

// plans returns the plans of runs: each takes 0.2 to 2 seconds on fake hardware without
// delays.
func plans() []*holdfastv1.Plan {
	return []*holdfastv1.Plan{
		{PlanId: "rb-talk", Steps: []*holdfastv1.Step{brief(ssh("talk", TalkScript))}},
		{PlanId: "rb-boot", Steps: []*holdfastv1.Step{netboot("boot", "PXE"), reboot("restart")}},
		{PlanId: "rb-repave", Steps: []*holdfastv1.Step{netboot("boot", "HTTP"), repave("install")}},
		{PlanId: "rb-whole", Steps: []*holdfastv1.Step{reboot("restart"), repave("install"), ssh("greet", "seq 20\n")}},
	}
}

// register returns a plan whose display name is written and read. Nothing refers to it.
func register(id, name string) *holdfastv1.Plan {
	return &holdfastv1.Plan{PlanId: id, DisplayName: name, Steps: []*holdfastv1.Step{ssh("nothing", "true\n")}}
}

// step returns a step without a short timeout, because a run must not fail when a leader
// dies.
func step(name string) *holdfastv1.Step {
	return &holdfastv1.Step{Name: name, TimeoutSeconds: 20, MaxRetries: proto.Int32(1)}
}

// brief shortens a step, because a canceled reboot may have left its host without power.
// Its machine should not be held up for long.
func brief(s *holdfastv1.Step) *holdfastv1.Step {
	s.TimeoutSeconds, s.MaxRetries = 8, proto.Int32(0)
	return s
}

func ssh(name, script string) *holdfastv1.Step {
	s := step(name)
	s.Kind = &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Script: script}}
	return s
}

func netboot(name, mode string) *holdfastv1.Step {
	s := step(name)
	s.Kind = &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: mode}}
	return s
}

// reboot returns a step that presses the button without asking the operating system, which
// is faster.
func reboot(name string) *holdfastv1.Step {
	s := step(name)
	s.Kind = &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "bmc", Force: true}}
	return s
}

func repave(name string) *holdfastv1.Step {
	s := step(name)
	s.Kind = &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian-13"}}
	return s
}
