package diskrule

import (
	"fmt"
	"path"
	"strings"
)

// Choose returns the one disk that the rule selects. If none or several qualify, it returns
// an error that lists the disks and why each one was refused.
func (r Rule) Choose(disks []Disk) (Disk, error) {
	var left []Disk
	var refused []string
	for _, d := range disks {
		if why := r.refuses(d); why != "" {
			refused = append(refused, d.String()+": "+why)
			continue
		}
		left = append(left, d)
	}
	left = r.pick(left)
	switch {
	case len(left) == 1:
		return left[0], nil
	case len(disks) == 0:
		return Disk{}, fmt.Errorf("choose a disk by %s: the machine has no disk: "+
			"is its controller's driver in the installer?", r.quoted())
	case len(left) == 0:
		return Disk{}, fmt.Errorf("choose a disk by %s: no disk qualifies; seen: %s",
			r.quoted(), strings.Join(refused, "; "))
	}
	return Disk{}, fmt.Errorf("choose a disk by %s: %d disks qualify and nothing was written: %s: "+
		"make the rule select one, for example serial=%s", r.quoted(), len(left), list(left), example(left))
}

// pick applies the key by.
func (r Rule) pick(left []Disk) []Disk {
	if r.by == "" {
		return left
	}
	var best []Disk
	for _, d := range left {
		switch {
		case len(best) == 0,
			(d.SizeBytes < best[0].SizeBytes) == (r.by == "smallest") && d.SizeBytes != best[0].SizeBytes:
			best = []Disk{d}
		case d.SizeBytes == best[0].SizeBytes:
			best = append(best, d)
		}
	}
	return best
}

// refuses returns the reason why a disk does not qualify, or "" if it does.
func (r Rule) refuses(d Disk) string {
	switch {
	case d.ReadOnly:
		return "it is read-only"
	case d.Remote != "":
		return "it is not known to be local (" + d.Remote + ")"
	case d.Removable:
		return "it is removable"
	case d.SizeBytes == 0:
		return "it has no medium"
	case r.name != "" && r.name != d.Name:
		return "its name is not " + r.name
	case r.serial != "" && r.serial != strings.TrimSpace(d.Serial):
		return "its serial is not " + r.serial
	case r.wwn != "" && plainWWN(r.wwn) != plainWWN(d.WWN):
		return "its wwn is not " + r.wwn
	case r.model != "" && !like(r.model, d.Model):
		return "its model is not " + r.model
	case d.SizeBytes < r.minSize:
		return "it is smaller than " + Size(r.minSize)
	case r.maxSize != 0 && d.SizeBytes > r.maxSize:
		return "it is larger than " + Size(r.maxSize)
	case r.rotational != nil && *r.rotational != d.Rotational:
		if d.Rotational {
			return "it is rotational"
		}
		return "it is not rotational"
	}
	return ""
}

func (r Rule) quoted() string {
	if s := r.String(); s != "" {
		return fmt.Sprintf("the rule %q", s)
	}
	return "the empty rule (the only disk there is)"
}

// like reports whether text matches the pattern, ignoring case. A * matches anything.
func like(pattern, text string) bool {
	// path.Match treats slashes and some characters specially, but in a model they are
	// plain text.
	clean := strings.NewReplacer("/", "\x00", `\`, `\\`, "?", `\?`, "[", `\[`)
	text = strings.ReplaceAll(strings.TrimSpace(text), "/", "\x00")
	ok, err := path.Match(strings.ToLower(clean.Replace(pattern)), strings.ToLower(text))
	return err == nil && ok
}

// plainWWN returns a world wide name without its prefix.
func plainWWN(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	for _, prefix := range []string{"0x", "naa.", "eui."} {
		s = strings.TrimPrefix(s, prefix)
	}
	return s
}

func list(disks []Disk) string {
	names := make([]string, 0, len(disks))
	for _, d := range disks {
		names = append(names, d.String())
	}
	return strings.Join(names, "; ")
}

// example returns the serial number of a disk that qualifies, or a placeholder.
func example(disks []Disk) string {
	for _, d := range disks {
		if d.Serial != "" {
			return d.Serial
		}
	}
	return "SERIAL"
}
