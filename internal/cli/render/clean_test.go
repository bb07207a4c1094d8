package render

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestWriter(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"text", "a\tb\nü 漢\n", "a\tb\nü 漢\n"},
		{"color", "\x1b[31mred\x1b[0m", "red"},
		{"title", "\x1b]0;PWNED\x07\x1b[2Jx", "x"},
		{"link", "\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"8 bits", "a\u009b31mb\u009d0;t\u009cc", "abc"},
		{"device attributes", "a\x1b[cb\x1b[6nc\x1bZd", "abcd"},
		{"charset", "a\x1b(0b", "ab"},
		{"device control", "a\x1bP+q544e\x1b\\b", "ab"},
		{"reset", "a\x1bcb", "ab"},
		{"turned around", "a\u202egpj.exe\u2066", "a\ufffdgpj.exe\ufffd"},
		{"carriage returns", "a\r\nb\rc\r", "a\nb\nc\n"},
		{"backspace and bell", "a\bb\x07", "a\ufffdb\ufffd"},
		{"not UTF-8", "a\x9b31m\xff", "a\ufffd31m\ufffd"},
		{"unfinished", "a\x1b]0;t\nb", "a\nb"},
		{"two escapes", "a\x1b\x1b[31mb", "ab"},
	} {
		for _, size := range []int{1, len(tt.in)} {
			var out bytes.Buffer
			w := NewWriter(&out)
			for part := range slices.Chunk([]byte(tt.in), size) {
				if _, err := w.Write(part); err != nil {
					t.Fatal(err)
				}
			}
			if got := out.String(); got != tt.want {
				t.Errorf("%s, %d bytes at a time: got %q, want %q", tt.name, size, got, tt.want)
			}
		}
	}
}

func TestScreen(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"a menu", "\x1b[2J\x1b[1;1H\x1b[7mBIOS\x1b[0m\r\n\b", "\x1b[2J\x1b[1;1H\x1b[7mBIOS\x1b[0m\r\n\b"},
		{"a frame", "\x1b(0lq\x1b(B", "\x1b(0lq\x1b(B"},
		{"cursor off", "\x1b[?25l", "\x1b[?25l"},
		{"title", "a\x1b]0;PWNED\x07b", "ab"},
		{"clipboard", "a\x1b]52;c;eA==\x1b\\b", "ab"},
		{"reports", "a\x1b[6n\x1b[c\x1b[>c\x1bZ\x1b[18t\x1bP$qm\x1b\\b", "ab"},
		{"mouse", "a\x1b[?1000hb\x1b[?2004h", "ab"},
		{"reset", "a\x1bcb", "ab"},
		{"8 bits", "a\u009b6nb", "ab"},
		{"turned around", "a\u202eb", "a\ufffdb"},
	} {
		var out bytes.Buffer
		w := NewScreen(&out)
		for part := range slices.Chunk([]byte(tt.in), 3) {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if got := out.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestWriterIsSafe writes any bytes in any pieces: only text, line breaks and tabs come out.
func TestWriterIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		w := NewWriter(&out)
		bytesOf := rapid.SampledFrom([]byte("\x1b[]\x9b\xc2\x9d\xe2\x80\xae\r\n\t a0;m\x07\\"))
		for _, part := range rapid.SliceOf(rapid.SliceOf(bytesOf)).Draw(t, "parts") {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if bad := strings.IndexFunc(out.String(), func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || r >= 0x202a && r <= 0x202e)
		}); bad >= 0 {
			t.Errorf("got %q at %d", out.String(), bad)
		}
	})
}

// TestEscaped checks that JSON has the same values without unsafe characters.
func TestEscaped(t *testing.T) {
	in := map[string]string{"a": "x\u009b31m\u202e\u2028 ü", "b": "plain"}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.ReplaceAll(raw, []byte(`\u2028`), []byte("\u2028"))
	safe := Escaped(raw)
	if i := bytes.IndexFunc(safe, unsafe); i >= 0 {
		t.Errorf("got %q", safe)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(NewLogWriter(&log), nil)).Info("x", "from", in["a"])
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "from", in["a"])
	if strings.ContainsFunc(strings.ReplaceAll(log.String(), "\n", ""), unsafe) {
		t.Errorf("log: got %q", log.String())
	}
	var got map[string]string
	if err := json.Unmarshal(safe, &got); err != nil || got["a"] != in["a"] || got["b"] != in["b"] {
		t.Errorf("got %q, %v, want %q", got, err, in)
	}
}
