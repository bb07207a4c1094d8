package display

import (
	"regexp"
	"strings"
	"unicode"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// LogPiece is the output of one attempt to one stream.
type LogPiece struct {
	Step    string `json:"step"`
	Attempt int32  `json:"attempt"`
	Stream  string `json:"stream"`
	Text    string `json:"text"`
}

// AppendLog appends a chunk. It extends the last piece if attempt and stream are the same.
func AppendLog(all []LogPiece, c *holdfastv1.LogChunk) []LogPiece {
	p := Piece(c)
	n := len(all)
	if n > 0 && all[n-1].Step == p.Step && all[n-1].Attempt == p.Attempt && all[n-1].Stream == p.Stream {
		all[n-1].Text += p.Text
		return all
	}
	return append(all, p)
}

// Piece returns the output of a chunk.
func Piece(c *holdfastv1.LogChunk) LogPiece {
	return LogPiece{Step: c.GetStep(), Attempt: c.GetAttempt(), Stream: c.GetStream(), Text: Clean(string(c.GetData()))}
}

// escapes matches terminal escape sequences.
var escapes = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-_])`)

// Clean removes escape sequences and control characters from log output.
func Clean(s string) string {
	s = escapes.ReplaceAllString(strings.ReplaceAll(s, "\r\n", "\n"), "")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
