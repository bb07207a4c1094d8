package registry

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// clip truncates a text sent by a program. It is only stored for display, so a request is
// not refused because of its length.
func clip(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// measured is a number in a client's request, with the name of its field.
type measured struct {
	field string
	value float64
}

// finite returns an error if a value is NaN or infinite. JSON cannot represent those, so
// no list that contains the value could be encoded.
func finite(all ...measured) error {
	for _, m := range all {
		if math.IsNaN(m.value) || math.IsInf(m.value, 0) {
			return request.Invalid(m.field, fmt.Sprintf("is %v: want a finite number", m.value))
		}
	}
	return nil
}

// finiteGpus is finite for a list of GPUs.
func finiteGpus(field string, gpus []*holdfastv1.Gpu) error {
	for i, g := range gpus {
		at := field + "[" + strconv.Itoa(i) + "]."
		err := finite(
			measured{at + "total_vram_gb", g.GetTotalVramGb()},
			measured{at + "available_vram_gb", g.GetAvailableVramGb()},
			measured{at + "temperature_celsius", g.GetTemperatureCelsius()},
		)
		if err != nil {
			return err
		}
	}
	return nil
}
