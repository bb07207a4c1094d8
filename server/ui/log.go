package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// logPiece is the output of one attempt to one stream.
type logPiece struct {
	Step    string `json:"step"`
	Attempt int32  `json:"attempt"`
	Stream  string `json:"stream"`
	Text    string `json:"text"`
}

// appendLog appends a chunk. It extends the last piece if attempt and stream are the same.
func appendLog(all []logPiece, c *holdfastv1.LogChunk) []logPiece {
	p := piece(c)
	n := len(all)
	if n > 0 && all[n-1].Step == p.Step && all[n-1].Attempt == p.Attempt && all[n-1].Stream == p.Stream {
		all[n-1].Text += p.Text
		return all
	}
	return append(all, p)
}

func piece(c *holdfastv1.LogChunk) logPiece {
	return logPiece{Step: c.GetStep(), Attempt: c.GetAttempt(), Stream: c.GetStream(), Text: clean(string(c.GetData()))}
}

// escapes matches terminal escape sequences.
var escapes = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-_])`)

// clean removes escape sequences and control characters from log output.
func clean(s string) string {
	s = escapes.ReplaceAllString(strings.ReplaceAll(s, "\r\n", "\n"), "")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// runLog streams the log of a run, or one of its streams, as server-sent events. It starts
// at an offset or after the last event. When the run has ended, it sends the event "end".
// With ?as=text it responds with the whole log so far.
func (d *dashboard) runLog(w http.ResponseWriter, r *http.Request) {
	q, id := r.URL.Query(), r.PathValue("id")
	if q.Get("as") == "text" {
		d.wholeLog(w, r, id)
		return
	}
	offset, err := strconv.ParseInt(cmp.Or(r.Header.Get("Last-Event-ID"), q.Get("offset"), "0"), 10, 64)
	if err != nil || offset < 0 {
		http.Error(w, "offset is invalid: want a byte offset in the log", http.StatusBadRequest)
		return
	}
	s, only := d.stream(w, r), q.Get("stream")
	s.run(func(send func(text string) error) error { //nolint:contextcheck // the stream has the context of its request
		req := &holdfastv1.StreamRunLogsRequest{RunId: id, Offset: offset}
		err := d.feed.RunLog(s.ctx, req, func(c *holdfastv1.LogChunk) error {
			if only != "" && c.GetStream() != only {
				return nil
			}
			data, _ := json.Marshal(piece(c)) // a piece always marshals
			next := c.GetOffset() + int64(len(c.GetData()))
			return send(fmt.Sprintf("id: %d\nevent: log\ndata: %s\n\n", next, data))
		})
		if err == nil {
			err = send("event: end\ndata: {}\n\n")
		}
		return err
	})
}

// wholeLog responds with the unmodified log as text.
func (d *dashboard) wholeLog(w http.ResponseWriter, r *http.Request, id string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	req := &holdfastv1.StreamRunLogsRequest{RunId: id, NoFollow: true}
	err := d.feed.RunLog(r.Context(), req, func(c *holdfastv1.LogChunk) error {
		_, err := w.Write(c.GetData())
		return err
	})
	if err != nil {
		http.Error(w, httpjson.Message(err), httpjson.Status(err))
	}
}
