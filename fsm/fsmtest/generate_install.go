package fsmtest

import (
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const installTokens = 12

// installGenerator makes the commands about install sessions. Runs come from runs, and the names of
// images from images.
type installGenerator struct {
	draw
	images imageGenerator
	runs   runGenerator
}

func (g installGenerator) choices() []choice {
	return []choice{{20, "something of an install", g.install}}
}

// installToken returns the hash of an installer's token.
func (g installGenerator) installToken() []byte { return TokenValue(g.id("install", installTokens)) }

// openInstall opens a session of a run's current attempt.
func (g installGenerator) openInstall(v *fsm.View) proto.Message {
	r := g.atInstall(v)
	step, n := r.GetCurrentStep(), int32(1)
	for _, s := range r.GetSteps() {
		if s.GetName() == step {
			n = int32(len(s.GetAttempts()))
		}
	}
	if g.rarely("another attempt") {
		n++
	}
	if g.Choose("note", 3) == 0 {
		c := &internalv1.NoteInstall{
			RunId:        r.GetRunId(),
			Step:         step,
			Attempt:      n,
			DiskBooted:   g.Choose("disk booted", 2) == 0,
			PowerOffSeen: g.Choose("off", 2) == 0,
			PowerOnSeen:  g.Choose("on", 2) == 0,
		}
		if g.rarely("medium") {
			c.MediumSha256, c.MediumServer = g.installToken(), "http://10.0.0.1:7404"
		}
		return c
	}
	return &internalv1.OpenInstall{
		RunId:   r.GetRunId(),
		Step:    step,
		Attempt: n,
		Image:   g.images.imageName(),
		Wipe:    g.Choose("wipe", 2) == 0,
	}
}

// atInstall returns a run at a step that installs, if there is one.
func (g installGenerator) atInstall(v *fsm.View) *holdfastv1.Run {
	var at []*holdfastv1.Run
	for r := range v.ActiveRuns() {
		if m, _ := v.Machine(r.GetMachineId()); len(m.GetSpec().GetMacAddresses()) == 0 {
			continue
		}
		for _, s := range r.GetSteps() {
			if s.GetName() == r.GetCurrentStep() && s.GetKind() == "repave" && len(s.GetAttempts()) > 0 {
				at = append(at, r)
			}
		}
	}
	if r := oneOf(g.draw, "installing run", at); r != nil {
		return r
	}
	return g.runs.someRun(v)
}

func (g installGenerator) bootInstall(v *fsm.View) proto.Message {
	c := &internalv1.BootInstall{
		MachineId: g.id("m", machineIDs), Sha256: g.installToken(), IpAddress: g.id("10.0.0", 3),
	}
	var open []string
	for m := range v.Machines("") {
		if i, ok := v.Install(m.GetMachineId()); ok && fsm.InstallBoots(i) {
			open = append(open, m.GetMachineId())
		}
	}
	if id := oneOf(g.draw, "machine that boots", open); id != "" {
		c.MachineId = id
	}
	if g.rarely("no installer") {
		c.Sha256, c.Note = nil, "there is no installer"
	}
	return c
}

func (g installGenerator) reportInstall(v *fsm.View) proto.Message {
	r := &holdfastv1.ReportInstallRequest{
		Status: oneOf(g.draw, "status", []string{
			"started", "progress", "progress", "complete", "complete", "failed", "dancing",
		}),
		Detail: g.id("stage", 3),
	}
	if r.GetStatus() == "progress" {
		r.HasProgress, r.Progress = true, int32(g.Choose("progress", 102))
	}
	if r.GetStatus() == "complete" {
		r.HostKeys = []string{"ssh-ed25519 " + g.id("key", 3)}
	}
	if g.rarely("inventory") {
		r.Inventory = &holdfastv1.HardwareInventory{Serial: g.id("serial", 3)}
	}
	return &internalv1.ReportInstall{Sha256: g.goodInstallToken(v), Report: r}
}

func (g installGenerator) appendInstallLog(v *fsm.View) proto.Message {
	c := &internalv1.AppendInstallLog{
		Sha256: g.goodInstallToken(v),
		Data:   []byte(oneOf(g.draw, "line", []string{"", "x", "über\n", "a longer line\n"})),
	}
	if i, err := v.InstallByToken(c.GetSha256()); err == nil {
		c.Offset = max(0, i.GetLogBytes()-int64(g.Choose("back", 4)))
	}
	if g.rarely("a hole") {
		c.Offset++
	}
	return c
}

// goodInstallToken returns a valid token, if there is one.
func (g installGenerator) goodInstallToken(v *fsm.View) []byte {
	var good []int
	for n := range installTokens {
		if _, err := v.InstallByToken(TokenValue("install-" + strconv.Itoa(n))); err == nil {
			good = append(good, n)
		}
	}
	if len(good) == 0 || g.rarely("any token") {
		return g.installToken()
	}
	return TokenValue("install-" + strconv.Itoa(good[g.Choose("good token", len(good))]))
}

// install continues an install session, or opens one. Attempts are short, so it mostly makes
// the next command in order.
func (g installGenerator) install(v *fsm.View) proto.Message {
	next := 0
	for m := range v.Machines("") {
		if i, ok := v.Install(m.GetMachineId()); ok && fsm.InstallOpen(i) {
			next = max(next, min(int(i.GetStage()), 2))
		}
	}
	if g.rarely("out of order") {
		next = g.Choose("what", 3)
	}
	switch {
	case next == 0:
		return g.openInstall(v)
	case next == 1:
		return g.bootInstall(v)
	case g.Choose("log", 4) == 0:
		return g.appendInstallLog(v)
	case g.Choose("note", 4) == 0:
		return g.openInstall(v)
	}
	return g.reportInstall(v)
}
