package ui

import (
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

// logPiece is a part of a log that one attempt wrote to one stream.
type logPiece struct {
	Step    string `json:"step"`
	Attempt int32  `json:"attempt"`
	Stream  string `json:"stream"`
	Text    string `json:"text"`
}

// appendLog adds a chunk to what there is of the log.
func appendLog(all []logPiece, c *holdfastv1.LogChunk) []logPiece {
	p := piece(c)
	if n := len(all); n > 0 && all[n-1].Step == p.Step && all[n-1].Attempt == p.Attempt && all[n-1].Stream == p.Stream {
		all[n-1].Text += p.Text
		return all
	}
	return append(all, p)
}

func piece(c *holdfastv1.LogChunk) logPiece {
	return logPiece{Step: c.GetStep(), Attempt: c.GetAttempt(), Stream: c.GetStream(), Text: clean(string(c.GetData()))}
}

// escapes are what programs send a terminal to move and to paint.
var escapes = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-_])`)

// clean returns what a log says, without what it would do to a terminal.
func clean(s string) string {
	s = escapes.ReplaceAllString(strings.ReplaceAll(s, "\r\n", "\n"), "")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// runLog follows the log of a run, or one stream of it, as server-sent events, from an offset or
// the last event on. It ends with an event "end" when the run has ended; as text, it is all that
// there is.
func (d *dashboard) runLog(w http.ResponseWriter, r *http.Request) {
	q, id := r.URL.Query(), r.PathValue("id")
	if q.Get("as") == "text" {
		d.wholeLog(w, r, id)
		return
	}
	offset, err := strconv.ParseInt(orZero(first(r.Header.Get("Last-Event-ID"), q.Get("offset"))), 10, 64)
	if err != nil || offset < 0 {
		http.Error(w, "offset: want the number of a byte of the log", http.StatusBadRequest)
		return
	}
	s, only := d.stream(w, r), q.Get("stream")
	s.run(func(send func(text string) error) error { //nolint:contextcheck // the stream has the context of its request
		err := d.feed.RunLog(s.ctx, &holdfastv1.StreamRunLogsRequest{RunId: id, Offset: offset}, func(c *holdfastv1.LogChunk) error {
			if only != "" && c.GetStream() != only {
				return nil
			}
			data, _ := json.Marshal(piece(c)) // nothing in it can fail
			return send(fmt.Sprintf("id: %d\nevent: log\ndata: %s\n\n", c.GetOffset()+int64(len(c.GetData())), data))
		})
		if err == nil {
			err = send("event: end\ndata: {}\n\n")
		}
		return err
	})
}

// wholeLog answers the log as it is, as text.
func (d *dashboard) wholeLog(w http.ResponseWriter, r *http.Request, id string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	err := d.feed.RunLog(r.Context(), &holdfastv1.StreamRunLogsRequest{RunId: id, NoFollow: true}, func(c *holdfastv1.LogChunk) error {
		_, err := w.Write(c.GetData())
		return err
	})
	if err != nil {
		http.Error(w, httpjson.Message(err), httpjson.Status(err))
	}
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}
