package redfish

import (
	"cmp"
	"encoding/json"
	"path"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// looseText is a property that should be a string. Services return null, numbers and booleans where
// the schema has strings.
type looseText string

// UnmarshalJSON accepts a string, a number or a boolean; anything else is empty.
func (t *looseText) UnmarshalJSON(b []byte) error {
	var s string
	scalar := len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9')
	switch {
	case json.Unmarshal(b, &s) == nil:
		*t = looseText(s)
	case scalar, string(b) == "true", string(b) == "false":
		*t = looseText(b)
	}
	return nil
}

// number is a property that should be a number; set is false if it is not.
type number struct {
	value float64
	set   bool
}

// UnmarshalJSON accepts a number, also in quotes.
func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	n.value, n.set = v, err == nil
	return nil
}

// state is the Status of a resource (Resource schema).
type state struct{ State, Health, HealthRollup looseText }

// bad describes the fault, or returns "" if none is known. Values outside the schema are ignored:
// some service returns Health: Enabled (bb-Ricardo/check_redfish#200).
func (s state) bad() string {
	switch {
	case s.State == "Absent":
	case s.Health == "Critical":
		return "failed"
	case s.Health == "Warning":
		return "is degraded"
	}
	return ""
}

// part has the properties that all kinds of parts share.
type part struct {
	ODataID       string    `json:"@odata.id"`
	ID            looseText `json:"Id"`
	MemberID      looseText `json:"MemberId"`
	Name          looseText
	Socket        looseText
	DeviceLocator looseText
	Status        state

	FailurePredicted bool      // of a drive
	LineInputStatus  looseText // of a power supply
	Reading          number    `json:"ReadingCelsius"` // of a temperature, with its thresholds
	UpperCritical    number    `json:"UpperThresholdCritical"`
	UpperFatal       number    `json:"UpperThresholdFatal"`
}

func (p part) id() string { return cmp.Or(string(p.ID), string(p.MemberID), path.Base(p.ODataID)) }

// called returns the name of a part: its own if that has a number, else the kind and its id.
func (p part) called(what string) string {
	name := cmp.Or(string(p.DeviceLocator), string(p.Socket), string(p.Name))
	if strings.ContainsAny(name, "0123456789") {
		return text.Clip(name, 60)
	}
	return what + " " + text.Clip(p.id(), 40)
}
