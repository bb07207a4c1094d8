package misfit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// maxShown is the maximum number of characters of a value that a sentence quotes.
const maxShown = 60

// Quote returns a value in quotes, cut after 60 characters.
func Quote(text string) string {
	if utf8.RuneCountInString(text) > maxShown {
		text = string([]rune(text)[:maxShown-1]) + "…"
	}
	return strconv.Quote(text)
}

// Text returns the reason why a text is not a value of a field of one value, or "".
func Text(fd protoreflect.FieldDescriptor, text string) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return Quote(text) + " is neither true nor false"
		}
	case protoreflect.EnumKind:
		return enum(fd.Enum(), text)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return Quote(text) + " is not a number"
		}
	case protoreflect.BytesKind:
		return bytes(text)
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return textMessage(fd.Message(), text)
	case protoreflect.StringKind:
		if !utf8.ValidString(text) {
			return Quote(text) + " is not UTF-8"
		}
	default:
		why := integer(fd.Kind(), text)
		if d, err := time.ParseDuration(text); err == nil && why != "" && strings.HasSuffix(string(fd.Name()), "_seconds") {
			why += ": write " + strconv.FormatInt(int64(d.Seconds()), 10)
		}
		return why
	}
	return ""
}

// integer returns the reason why a text is not a whole number in the range of a kind, or "".
func integer(kind protoreflect.Kind, text string) string {
	least, most := "0", strconv.FormatUint(math.MaxUint64, 10)
	var err error
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		least, most = strconv.Itoa(math.MinInt32), strconv.Itoa(math.MaxInt32)
		_, err = strconv.ParseInt(text, 10, 32)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		least, most = strconv.Itoa(math.MinInt64), strconv.Itoa(math.MaxInt64)
		_, err = strconv.ParseInt(text, 10, 64)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		most = strconv.Itoa(math.MaxUint32)
		_, err = strconv.ParseUint(text, 10, 32)
	default:
		_, err = strconv.ParseUint(text, 10, 64)
	}
	if err == nil {
		return undecimal(text)
	}
	if errors.Is(err, strconv.ErrRange) || strings.HasPrefix(text, "-") {
		return fmt.Sprintf("%s is not a whole number of %s to %s", Quote(text), least, most)
	}
	return Quote(text) + " is not a whole number"
}

// undecimal returns the reason why the text of a number is read in two ways, or "": 010 is ten or,
// as in C, eight. The command line refuses it too.
func undecimal(text string) string {
	sign, digits := "", text
	if text != "" && (text[0] == '-' || text[0] == '+') {
		sign, digits = strings.TrimPrefix(text[:1], "+"), text[1:]
	}
	plain := strings.TrimLeft(digits, "0")
	if plain == "" {
		plain, sign = "0", ""
	}
	if sign+plain == text {
		return ""
	}
	return Quote(text) + " is not written as a decimal number: write " + sign + plain
}

// enum returns the reason why a text is not a name or a number of an enum, or "".
func enum(d protoreflect.EnumDescriptor, text string) string {
	if d.Values().ByName(protoreflect.Name(text)) != nil || integer(protoreflect.Int32Kind, text) == "" {
		return ""
	}
	var names []string
	for i := range d.Values().Len() {
		if v := d.Values().Get(i); v.Number() != 0 {
			names = append(names, string(v.Name()))
		}
	}
	return Quote(text) + " is not one of " + strings.Join(names, ", ")
}

func bytes(text string) string {
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding,
		base64.RawURLEncoding} {
		if _, err := e.DecodeString(text); err == nil {
			return ""
		}
	}
	return Quote(text) + " is not base64"
}

// textMessage returns the reason why a text is not a message that JSON writes as text, or "".
func textMessage(md protoreflect.MessageDescriptor, text string) string {
	switch md.FullName() {
	case "google.protobuf.Timestamp":
		if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
			return Quote(text) + " is not a time such as 2026-01-29T15:20:00Z"
		}
	case "google.protobuf.Duration":
		number, seconds := strings.CutSuffix(text, "s")
		if _, err := strconv.ParseFloat(number, 64); err == nil && seconds {
			return ""
		}
		if d, err := time.ParseDuration(text); err == nil {
			return fmt.Sprintf("%s is not a number of seconds: write %q", Quote(text),
				strconv.FormatFloat(d.Seconds(), 'f', -1, 64)+"s")
		}
		return Quote(text) + ` is not a number of seconds such as "90s"`
	}
	return ""
}

// asText lists the messages that JSON writes as text.
func asText(md protoreflect.MessageDescriptor) bool {
	switch md.FullName() {
	case "google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.FieldMask":
		return true
	}
	return false
}

// mostNames is the maximum number of names that a sentence lists.
const mostNames = 14

// Unknown returns the remedy for a name that does not exist: the name that was meant, or else the
// names there are, if they are few.
func Unknown(written string, names []string) string {
	if like := nearest.Key(written, names); like != "" {
		return ": did you mean " + like + "?"
	}
	switch n := len(names); {
	case n == 0:
		return ""
	case n > mostNames:
		return ": want one of " + strings.Join(names[:mostNames], ", ") + ", …"
	}
	return ": want one of " + strings.Join(names, ", ")
}

// FieldNames returns the names of the fields of a message.
func FieldNames(md protoreflect.MessageDescriptor) []string {
	names := make([]string, 0, md.Fields().Len())
	for i := range md.Fields().Len() {
		names = append(names, string(md.Fields().Get(i).Name()))
	}
	return names
}
