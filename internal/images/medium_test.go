package images_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
)

// installing creates an install session with a boot medium for secret, and returns a
// function that waits for its state.
func (l *lab) installing(secret [32]byte) {
	l.t.Helper()
	_, sum := providers.MediumToken(secret)
	l.do(&internalv1.Command{
		Op: &internalv1.Command_CreatePlan{CreatePlan: &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "p",
			Steps: []*holdfastv1.Step{{Name: "repave",
				Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian"}}}}}}}})
	l.do(&internalv1.Command{
		Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
			Machine: &holdfastv1.Machine{MachineId: "m-1",
				Spec:   &holdfastv1.MachineSpec{MacAddresses: []string{"52:54:00:00:00:01"}},
				Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_READY}}}}})
	l.do(&internalv1.Command{Op: &internalv1.Command_StartRun{StartRun: &internalv1.StartRun{RunId: "run-1",
		MachineId: "m-1", RequestId: "r", PlanId: "p", DefaultTimeoutSeconds: 600}}})
	l.do(&internalv1.Command{Op: &internalv1.Command_BeginAttempt{BeginAttempt: &internalv1.BeginAttempt{RunId: "run-1",
		Step: "repave", Attempt: 1}}})
	l.do(&internalv1.Command{Op: &internalv1.Command_OpenInstall{OpenInstall: &internalv1.OpenInstall{RunId: "run-1",
		Step: "repave", Attempt: 1, Image: "debian"}}})
	l.do(&internalv1.Command{Op: &internalv1.Command_NoteInstall{NoteInstall: &internalv1.NoteInstall{RunId: "run-1",
		Step: "repave", Attempt: 1, MediumSha256: sum, MediumServer: "http://10.0.0.1:7404"}}})
}

// A medium is the disk of its image with the session's command line in every parameter area. It can
// be read in full or in parts, by any client with its URL, while the session waits.
func TestMedium(t *testing.T) {
	const size = 1024
	room := "@HOLDFAST-BOOT-PARAMETERS@"
	room += strings.Repeat("@", size-len(room))
	// The second area spans two blocks of the search.
	disc := strings.Join([]string{string(someBytes(3000, 1)), string(someBytes(1<<20-3000-size-500, 2)),
		string(someBytes(9000, 3))}, room)
	l := newLab(t, 1).start()
	p := l.peers[0]
	secret := [32]byte{1, 2, 3}
	token, _ := providers.MediumToken(secret)
	line := "holdfast.url=http://10.0.0.1:7404 holdfast.token=" + token + " holdfast.macs=52:54:00:00:00:01"
	want := strings.ReplaceAll(disc, room, line+strings.Repeat(" ", size-len(line)))
	get := func(u, ranges string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if ranges != "" {
			req.Header.Set("Range", ranges)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	its := providers.MediumURL(p.web.URL, secret)
	if code, _ := get(its, ""); code != 404 {
		t.Errorf("before the session: got %d", code)
	}
	l.installing(secret)
	if code, body := get(its, ""); code != 404 || !strings.Contains(body, "installer-iso") {
		t.Errorf("without an image: got %d %s", code, body)
	}
	l.add("installer-iso", &holdfastv1.Image_File{Sha256: p.put([]byte("no medium")), SizeBytes: 9})
	if code, body := get(its, ""); code != 500 || !strings.Contains(body, "make netboot") {
		t.Errorf("medium of an unsuitable image: got %d %s", code, body)
	}
	l.add("installer-iso", &holdfastv1.Image_File{Sha256: p.put([]byte(disc)), SizeBytes: int64(len(disc))})
	if code, body := get(its, ""); code != 200 || !bytes.Equal([]byte(body), []byte(want)) {
		t.Errorf("whole medium: got %d, %d bytes, %d of them correct at the start", code, len(body), same(body, want))
	}
	for _, r := range []struct {
		of       string
		from, to int
	}{{"bytes=2900-3099", 2900, 3100}, {"bytes=3500-3501", 3500, 3502}, {"bytes=4000-5999", 4000, 6000},
		{"bytes=1048000-1050000", 1048000, 1050001}, {"bytes=0-0", 0, 1}} {
		if code, body := get(its, r.of); code != 206 || body != want[r.from:r.to] {
			t.Errorf("range %s: got %d and other bytes", r.of, code)
		}
	}
	if code, _ := get(providers.MediumURL(p.web.URL, [32]byte{9}), ""); code != 404 {
		t.Errorf("unknown secret: got %d", code)
	}
	l.do(&internalv1.Command{Op: &internalv1.Command_EndAttempt{EndAttempt: &internalv1.EndAttempt{RunId: "run-1",
		Step: "repave", Attempt: 1, Outcome: holdfastv1.Attempt_CANCELED}}})
	if code, _ := get(its, ""); code != 404 {
		t.Errorf("after the end of the attempt: got %d", code)
	}
}

func same(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
