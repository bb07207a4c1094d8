// Package final reads the record of a settled cluster over its APIs, and the observations of the
// hardware, at the end of a workload.
//
// It owns those reads. It must not judge them: package check compares them with the history.
package final

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/test/bmclab/control"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// Record is what the cluster has recorded at the end, and the observations of the hardware.
type Record struct {
	Runs    []*holdfastv1.Run                     // all, as a linearizable read
	ByPeer  [][]workload.RunSeen                  // all runs, as each peer lists them
	Reads   []workload.Op                         // linearizable reads of every machine of the workload at every peer
	History map[string][]*holdfastv1.HistoryEntry // of the workload's machines
	// Logs are those of runs whose log was followed or whose output is known, at each peer.
	Logs     map[string][][]byte
	Stdout   map[string][]byte // of runs whose output is known
	Stderr   map[string][]byte // of runs whose output is known
	Effects  []fake.Effect
	Hardware []fake.MachineState
	Sums     []Sum // of each peer, at one index if possible

	Agents   map[string]*holdfastv1.Machine // of clients of leases; their histories are in History
	Services []*holdfastv1.Service          // all
	Declared map[string]bool                // ids of all pools and plans

	BMCs     []control.Seen // what each BMC had received when all runs had ended
	Sessions [][]string     // left on each BMC, a while later
	Starts   string         // one line for each command that began on the host: its token
}

// Sum is a checksum of a peer's state.
type Sum struct {
	Peer  string
	Index uint64
	Sum   []byte
}

// Read reads the record after everything has settled.
func Read(ctx context.Context, h *workload.History, t workload.Target) (*Record, error) {
	f := &Record{
		History: map[string][]*holdfastv1.HistoryEntry{},
		Logs:    map[string][][]byte{},
		Stdout:  map[string][]byte{},
		Stderr:  map[string][]byte{},
	}
	conns, hangUp, err := connect(t.Addrs, t.Creds)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	for i, c := range conns {
		runs, err := workload.ListRuns(ctx, holdfastv1.NewRunServiceClient(c))
		if err != nil {
			return nil, fmt.Errorf("peer %d: %w", i, err)
		}
		var seen []workload.RunSeen
		for _, r := range runs {
			seen = append(seen, workload.SeenRun(r))
		}
		f.ByPeer, f.Runs = append(f.ByPeer, seen), runs
		if err := f.logs(ctx, h, c); err != nil {
			return nil, fmt.Errorf("peer %d: %w", i, err)
		}
	}
	if err := f.histories(ctx, h, conns[0]); err != nil {
		return nil, err
	}
	if err := f.fleet(ctx, h, conns[0]); err != nil {
		return nil, err
	}
	if err := f.real(ctx, h.Real); err != nil {
		return nil, err
	}
	rec, err := workload.NewRecorder(t.Addrs, t.Creds)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rec.Close() }()
	offset := time.Since(h.Base) - rec.Since()
	for peer := range t.Addrs {
		for _, m := range h.Machines {
			rec.GetMachine(ctx, workload.Op{Client: peer, Peer: peer, Machine: m}, 5*time.Second)
		}
		if h.Register != "" {
			rec.GetPlan(ctx, workload.Op{Client: peer, Peer: peer, Plan: h.Register}, 5*time.Second)
		}
	}
	for _, op := range rec.Ops() {
		if op.Outcome != workload.OK {
			return nil, fmt.Errorf("last read of %s%s at peer %d: %s %s", op.Machine, op.Plan, op.Peer, op.Code,
				op.Message)
		}
		op.Call, op.Return = op.Call+offset, op.Return+offset
		f.Reads = append(f.Reads, op)
	}
	if err := ask(ctx, t.FakeURL+"/effects", &f.Effects); err != nil {
		return nil, err
	}
	if err := ask(ctx, t.FakeURL+"/machines", &f.Hardware); err != nil {
		return nil, err
	}
	f.Sums, err = Sums(ctx, t)
	return f, err
}

// logs reads the logs that the checks need, at one peer.
func (f *Record) logs(ctx context.Context, h *workload.History, c *grpc.ClientConn) error {
	want := map[string]bool{}
	for _, t := range h.Tails {
		want[t.Run] = true
	}
	for _, r := range f.Runs {
		if workload.Talk(r.GetPlanId()) || r.GetPlanId() == workload.HostPlan {
			want[r.GetRunId()] = true
		}
	}
	for id := range want {
		var all, stdout, stderr bytes.Buffer
		stream, err := holdfastv1.NewRunServiceClient(c).StreamRunLogs(ctx,
			&holdfastv1.StreamRunLogsRequest{RunId: id, NoFollow: true})
		for err == nil {
			var chunk *holdfastv1.LogChunk
			if chunk, err = stream.Recv(); err == nil {
				all.Write(chunk.GetData())
				switch chunk.GetStream() {
				case "stdout":
					stdout.Write(chunk.GetData())
				case "stderr":
					stderr.Write(chunk.GetData())
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the log of run %s: %w", id, err)
		}
		f.Logs[id] = append(f.Logs[id], all.Bytes())
		f.Stdout[id], f.Stderr[id] = stdout.Bytes(), stderr.Bytes()
	}
	return nil
}

func (f *Record) histories(ctx context.Context, h *workload.History, c *grpc.ClientConn) error {
	for _, m := range h.Machines {
		var err error
		if f.History[m], err = entries(ctx, m, holdfastv1.NewMachineServiceClient(c)); err != nil {
			return err
		}
	}
	return nil
}

// entries reads the history of a machine, newest first.
func entries(ctx context.Context, id string, c holdfastv1.MachineServiceClient) ([]*holdfastv1.HistoryEntry, error) {
	var all []*holdfastv1.HistoryEntry
	for token := ""; ; {
		page, err := c.ListMachineHistory(ctx,
			&holdfastv1.ListMachineHistoryRequest{MachineId: id, PageSize: 1000, PageToken: token})
		if err != nil {
			return nil, fmt.Errorf("list the history of %s: %w", id, err)
		}
		all = append(all, page.GetEntries()...)
		if token = page.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

// connect returns a connection to each peer.
func connect(
	addrs []string, creds credentials.TransportCredentials,
) (conns []*grpc.ClientConn, hangUp func(), err error) {
	hangUp = func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	for _, addr := range addrs {
		c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds))
		if err != nil {
			hangUp()
			return nil, nil, fmt.Errorf("make a connection to %s: %w", addr, err)
		}
		conns = append(conns, c)
	}
	return conns, hangUp, nil
}

// Sums requests the sums of all peers at once until they are of the same index, or the time
// is up. Raft appends entries even without writes, so this sometimes takes a few tries.
func Sums(ctx context.Context, t workload.Target) ([]Sum, error) {
	conns, hangUp, err := connect(t.Addrs, t.PeerCreds)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		all := make([]Sum, len(conns))
		errs := make([]error, len(conns))
		done := make(chan struct{})
		for i, c := range conns {
			go func() {
				defer func() { done <- struct{}{} }()
				r, err := internalv1.NewPeerServiceClient(c).StateSum(ctx, &internalv1.StateSumRequest{})
				all[i], errs[i] = Sum{r.GetPeerId(), r.GetAppliedIndex(), r.GetSha256()}, err
			}()
		}
		same := true
		for range conns {
			<-done
		}
		for i := range all {
			same = same && all[i].Index == all[0].Index
		}
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("sum up the states: %w", err)
		}
		if same {
			return all, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return all, nil // the check reports the difference
		}
	}
}

func ask(ctx context.Context, url string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask the fake hardware: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the fake hardware: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("ask the fake hardware for %s: %s", url, res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		return fmt.Errorf("read the fake hardware's response: %w", err)
	}
	return nil
}
