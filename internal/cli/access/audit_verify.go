package access

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxAuditLine is the maximum length of a line of an exported trail, in bytes.
const maxAuditLine = 64 << 10

func auditVerify(a *app.App) *cobra.Command {
	var o output.Flags
	var file, after string
	cmd := &cobra.Command{
		Use: "verify", Args: app.Exactly(),
		Short: "Verify that no audit event is missing or changed",
		Long: `Verify that no audit event is missing or changed. Every hash is computed here, from its event and the hash before it; the
hashes that the peers store are not trusted.

Keep the newest hash that this prints and pass it to the next verification with --after. That also proves that the trail was
not replaced or cut. With -f an exported file is verified.

The exit code is 0 if everything verifies, and 1 if not.`,
		Example: `  holdfast audit verify
  holdfast audit verify --after 4711:b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c
  holdfast audit verify -f audit.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := newVerification(after)
			if err != nil {
				return err
			}
			if file != "" {
				return verified(a, &o, v, verifyFile(a, file, v))
			}
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				ctx, cancel := a.Patience(ctx, 0)
				defer cancel()
				err := c.ExportAudit(ctx, v.sequence, v.add)
				if _, broken := errors.AsType[*brokenError](err); !broken {
					err = app.Failed(err, "read the audit trail")
				}
				return verified(a, &o, v, err)
			})(cmd, args)
		},
	}
	o.Register(cmd, output.DocumentShape[chainReport]("a verdict"))
	cmd.Flags().StringVarP(&file, "file", "f", "",
		"verify an exported file instead of the cluster's trail (- is standard input)")
	cmd.Flags().StringVar(&after, "after", "", "SEQUENCE:HASH of the newest event of an earlier verification")
	return cmd
}

// verification checks a trail, oldest event first.
type verification struct {
	chain    holdfastv1.AuditChain
	sequence uint64 // of an event that was verified before; 0: of none
	hash     []byte // of that event
}

func newVerification(after string) (*verification, error) {
	v := &verification{}
	if after == "" {
		return v, nil
	}
	seq, sum, _ := strings.Cut(after, ":")
	n, errN := strconv.ParseUint(seq, 10, 64)
	hash, errH := hex.DecodeString(sum)
	if errN != nil || errH != nil || n == 0 || len(hash) != 32 {
		return nil, app.Usagef("--after: %q is not SEQUENCE:HASH as an earlier verification printed it", after)
	}
	v.sequence, v.hash = n, hash
	return v, nil
}

// brokenError is the place where a trail does not verify.
type brokenError struct {
	verified uint64
	fault    string
}

func (e *brokenError) Error() string {
	return fmt.Sprintf("the audit trail is broken, after %s: %s", describe.Number(e.verified, "verified event"), e.fault)
}

func (v *verification) add(e *holdfastv1.AuditEvent) error {
	if v.chain.Count == 0 && v.sequence > 0 && e.GetSequence() > v.sequence {
		return &brokenError{0, fmt.Sprintf("it begins with event %d, event %d is not in it", e.GetSequence(),
			v.sequence)}
	}
	if e.GetSequence() == v.sequence && !bytes.Equal(e.GetHash(), v.hash) {
		return &brokenError{v.chain.Count,
			fmt.Sprintf("event %d has hash %x, but it had hash %x when it was verified before", v.sequence, e.GetHash(), v.hash)}
	}
	if err := v.chain.Add(e); err != nil {
		return &brokenError{v.chain.Count, err.Error()}
	}
	return nil
}

// done reports whether the trail has reached the event of the earlier verification.
func (v *verification) done() error {
	if v.chain.Sequence < v.sequence {
		return &brokenError{v.chain.Count, fmt.Sprintf("it ends with event %d, but event %d was verified before",
			v.chain.Sequence, v.sequence)}
	}
	return nil
}

func verifyFile(a *app.App, name string, v *verification) error {
	if name == "-" {
		return verifyLines(a.In, "standard input", v)
	}
	f, err := output.OpenFile(a, name)
	if err != nil {
		return fmt.Errorf("verify audit events: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	return verifyLines(f, name, v)
}

func verifyLines(in io.Reader, name string, v *verification) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxAuditLine)
	n := 0
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e holdfastv1.AuditEvent
		if err := protojson.Unmarshal(lines.Bytes(), &e); err != nil {
			return &brokenError{v.chain.Count, fmt.Sprintf("%s:%d is no audit event: %v", name, n, err)}
		}
		if err := v.add(&e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("verify audit events: %s:%d: %w", name, n+1, err)
	}
	return nil
}

// chainReport is the output of -o json.
type chainReport struct {
	Whole bool   `json:"whole"`
	First uint64 `json:"first_sequence"`
	Last  uint64 `json:"last_sequence"`
	Count uint64 `json:"count"`
	After string `json:"after,omitempty"` // hash that the first event follows: what came before is no longer kept
	End   string `json:"newest,omitempty"`
	Fault string `json:"fault,omitempty"`
}

// verified prints the result. A broken trail is an error.
func verified(a *app.App, o *output.Flags, v *verification, err error) error {
	if err == nil {
		err = v.done()
	}
	broken, ok := errors.AsType[*brokenError](err)
	if err != nil && !ok {
		return err
	}
	d := chainReport{Whole: err == nil, First: v.chain.First, Last: v.chain.Sequence, Count: v.chain.Count}
	if v.chain.First > 1 && v.chain.First != v.sequence {
		d.After = hex.EncodeToString(v.chain.Anchor)
	}
	if d.Count > 0 {
		d.End = fmt.Sprintf("%d:%x", v.chain.Sequence, v.chain.Hash)
	}
	if broken != nil {
		d.Fault = broken.fault
	}
	if printed := printReport(a, o, d); printed != nil {
		return printed
	}
	return err
}

func printReport(a *app.App, o *output.Flags, d chainReport) error {
	switch {
	case o.Structured():
		raw, err := json.Marshal(d)
		if err != nil {
			return err
		}
		return output.PrintDocument(a, o, raw)
	case o.Format == output.FormatName:
		if d.End == "" {
			return nil
		}
		_, err := fmt.Fprintln(a.Out, d.End)
		return err
	}
	t := render.NewTable("VERIFIED", "FIRST", "LAST", "EVENTS", "NEWEST")
	whole := render.T("yes", render.Green)
	if !d.Whole {
		whole = render.T("no", render.Red)
	}
	t.Row(whole, app.Number(d.First), app.Number(d.Last), app.Number(d.Count), d.End)
	if d.After != "" {
		a.Note("note: the events before %d were not verified; event %d follows an event with hash %s", d.First,
			d.First, d.After)
	}
	return output.PrintTable(a, o, t)
}
