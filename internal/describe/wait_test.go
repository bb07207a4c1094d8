package describe

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestWait checks the sentence of each kind of wait.
func TestWait(t *testing.T) {
	t.Parallel()
	worded := map[holdfastv1.Wait_Kind]bool{}
	for _, tt := range []struct {
		wait *holdfastv1.Wait
		want string
	}{
		{nil, ""},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_QUEUE}, "a free slot"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_TURNSTILE, Subject: "pxe"}, "step pxe to begin"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_BRAKE, Subject: "plan/x", Cause: "StepFailed at step pxe"},
			"the release of plan plan/x: StepFailed at step pxe"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_BRAKE, Subject: "plan/x", Pool: "a", Cause: "StepFailed"},
			"the release of plan plan/x in pool a: StepFailed"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_RAMP, Subject: "plan/x", Value: "debian", Number: 5, Pool: "a"},
			"a run of plan plan/x with image debian in pool a to end: 5 are running, and more may begin as runs succeed"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_PLAN_LIMIT, Subject: "plan/x", Number: 7},
			"a run of plan plan/x to end: 7 are running, the limit that an operator has set"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_WAVE, Subject: "w-1"}, "its turn in wave w-1"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_RETRY, Subject: "pxe", Number: 2}, "retry 2 of step pxe"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_STAGGER, Subject: "site"},
			"its turn to be powered on (power_on_interval of provider site)"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_READING, Subject: "BMC", Value: "power of m-05"},
			"the BMC to answer (reading power of m-05)"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_STEP, Subject: "repave"}, "the repave step"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: "host"}, "the host to answer"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: "host", Cause: "refused"},
			"the host to answer, but refused"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: "host", Value: "result"}, "the host to report the result"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_EFFECT, Subject: "power", Value: "off", Press: "hard-off"},
			"the power to be off (BMC accepted hard-off)"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_EFFECT, Subject: "node in c", Value: "drained", Detail: "pod a/b"},
			"the node in c to be drained (pod a/b)"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_BOOT, Subject: "host"}, "the host to boot"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_BOOT, Subject: "machine", Value: "network"},
			"the machine to boot from the network"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_COMMAND}, "the command to exit"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER}, "the install to finish"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Detail: "writing the image"},
			"the install to finish (writing the image)"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: "reports"}, "the installer's reports"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: "retry", Number: 1},
			"the installer to try again: 1 attempt failed"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: "virtual-medium"},
			"the installer to start from the virtual medium"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_TIMER, Subject: "light"}, "the end of the light's time"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_STOP, Subject: "pxe"}, "the current attempt to stop"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_PERSON, Subject: "operator"}, "an operator"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_PERSON, Subject: "operator", Value: "approve"}, "an operator to approve it"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_PERSON, Subject: "client", Value: "attach"},
			"a client to attach to the console"},
		{&holdfastv1.Wait{Kind: holdfastv1.Wait_PERSON, Subject: "client", Value: "leave"},
			"all clients to leave the console"},
		{&holdfastv1.Wait{Kind: 99, Subject: "x", Sentence: "as a later server words it"}, "as a later server words it"},
	} {
		worded[tt.wait.GetKind()] = true
		if got := Wait(tt.wait); got != tt.want {
			t.Errorf("Wait(%v): got %q, want %q", tt.wait, got, tt.want)
		}
	}
	for n, name := range holdfastv1.Wait_Kind_name {
		if kind := holdfastv1.Wait_Kind(n); kind != 0 && !worded[kind] {
			t.Errorf("kind %s has no example", name)
		}
	}
}

// TestEveryStageOfAnInstallIsWorded checks that the wait of each stage of an install has a sentence
// of its own.
func TestEveryStageOfAnInstallIsWorded(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for n, name := range holdfastv1.Install_Stage_name {
		switch holdfastv1.Install_Stage(n) {
		case holdfastv1.Install_STAGE_UNSPECIFIED, holdfastv1.Install_BOOTED_DISK, holdfastv1.Install_FAILED:
			continue // it waits for nothing more
		}
		value := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		text := Wait(&holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: value})
		if other, taken := seen[text]; taken || text == "the install to finish" {
			t.Errorf("stage %s is worded %q, as %q", value, text, other)
		}
		seen[text] = value
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	own, attempt := timestamppb.New(time.Unix(10, 0)), timestamppb.New(time.Unix(20, 0))
	for _, tt := range []struct {
		run  *holdfastv1.Run
		want *timestamppb.Timestamp
	}{
		{&holdfastv1.Run{}, nil},
		{&holdfastv1.Run{Deadline: attempt, Wait: &holdfastv1.Wait{}}, attempt},
		{&holdfastv1.Run{Deadline: attempt, Wait: &holdfastv1.Wait{Deadline: own}}, own},
	} {
		if got := Deadline(tt.run); got != tt.want {
			t.Errorf("Deadline(%v): got %v, want %v", tt.run, got, tt.want)
		}
	}
}

func TestReadsAndIgnores(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	reading := func(cause string) *holdfastv1.Wait {
		return &holdfastv1.Wait{Kind: holdfastv1.Wait_READING, Subject: "BMC", Value: "power of m-05", Cause: cause}
	}
	press := func(want, press, cause string) *holdfastv1.Wait {
		return &holdfastv1.Wait{Kind: holdfastv1.Wait_EFFECT, Subject: "power", Value: want, Press: press, Cause: cause}
	}
	boot := &holdfastv1.Wait{Kind: holdfastv1.Wait_BOOT, Subject: "host"}
	for _, tt := range []struct {
		name                  string
		wait                  *holdfastv1.Wait
		since, end            int // seconds from now; 0: no deadline
		reads, hangs, ignores string
	}{
		{"hangs", reading(""), -13, 7, "reading power of m-05: BMC has not answered for 13s (deadline in 7s)",
			"BMC has not answered for 13s", ""},
		{"hangs, no deadline", reading(""), -13, 0, "reading power of m-05: BMC has not answered for 13s",
			"BMC has not answered for 13s", ""},
		{"hangs, late", reading(""), -130, -1,
			"reading power of m-05: BMC has not answered for 2m10s (deadline has passed)",
			"BMC has not answered for 2m10s", ""},
		{"fails", reading("BMC answered 503"), -13, 7,
			"reading power of m-05 for 13s: BMC answered 503 (deadline in 7s)", "BMC answered 503", ""},
		{"another wait", boot, -13, 7, "", "", ""},
		{"no wait", nil, -13, 7, "", "", ""},
		{"ignored press", press("off", "hard-off", ""), -45, 7, "", "",
			"BMC accepted 'hard-off' 45s ago and still reports on"},
		{"recent press", press("off", "hard-off", ""), -14, 7, "", "", ""},
		{"press, reads fail", press("off", "hard-off", "refused"), -45, 7, "", "", ""},
		{"ignored power on", press("on", "on", ""), -45, 7, "", "", "BMC accepted 'on' 45s ago and still reports off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &holdfastv1.Run{Wait: tt.wait}
			if tt.wait != nil {
				r.Wait.Since = timestamppb.New(now.Add(time.Duration(tt.since) * time.Second))
			}
			if tt.end != 0 {
				r.Deadline = timestamppb.New(now.Add(time.Duration(tt.end) * time.Second))
			}
			for name, pair := range map[string][2]string{
				"Reads": {Reads(r, now), tt.reads}, "Hangs": {Hangs(r, now), tt.hangs},
				"Ignores": {Ignores(r, now), tt.ignores},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s: got %q, want %q", name, pair[0], pair[1])
				}
			}
		})
	}
}
