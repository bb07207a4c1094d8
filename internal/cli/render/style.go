package render

// Style is the style of a text on a terminal.
type Style string

// The styles, as SGR parameters. Plain is none.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Text is a text and its style.
type Text struct {
	Value string
	Style Style
}

// T is a text with a style.
func T(value string, style Style) Text { return Text{value, style} }

// State returns a phase, state or outcome in the color of its meaning.
func State(name string) Text {
	switch name {
	case "SUCCEEDED", "IN_SERVICE", "READY", "true", "leader":
		return Text{name, Green}
	case "FAILED", "INSTALL_FAILED", "EXPIRED", "unreachable":
		return Text{name, Red}
	case "CANCELED", "MAINTENANCE", "RMA":
		return Text{name, Yellow}
	case "RUNNING", "PENDING", "PROVISIONING":
		return Text{name, Cyan}
	case "WAITING", "NOT_STARTED", "RETIRED":
		return Text{name, Faint}
	}
	return Text{name, Plain}
}

// paint adds the style, if colors are enabled and the text is not empty.
func (t Text) paint(s string, color bool) string {
	if !color || t.Style == Plain || s == "" {
		return s
	}
	return "\x1b[" + string(t.Style) + "m" + s + "\x1b[0m"
}
