package display

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// PlanText returns a plan as YAML, without the fields that the cluster adds.
func PlanText(p *holdfastv1.Plan) string {
	p = fsm.WrittenPlan(p)
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(p)
	if err != nil {
		return "# " + err.Error() + "\n"
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return "# " + err.Error() + "\n"
	}
	return string(text)
}

// ReadPlan parses a plan in YAML or JSON with the field names of the API. Unknown fields
// are an error.
func ReadPlan(text string) (*holdfastv1.Plan, error) {
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "parse plan: %v", err)
	}
	p := &holdfastv1.Plan{}
	if err := protojson.Unmarshal(raw, p); err != nil {
		message := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
		return nil, status.Errorf(codes.InvalidArgument, "parse plan: %s", message)
	}
	return p, nil
}

// DiffLine is a line of a comparison: of one text, or common to both.
type DiffLine struct{ Class, Mark, Text string }

// mostLines bounds the number of compared lines. The cost is the product of both.
const mostLines = 1500

// DiffTexts returns the lines of a and b with a longest common subsequence marked as
// common.
func DiffTexts(a, b string) ([]DiffLine, error) {
	x, y := strings.Split(strings.TrimSuffix(a, "\n"), "\n"), strings.Split(strings.TrimSuffix(b, "\n"), "\n")
	if len(x) > mostLines || len(y) > mostLines {
		return nil, status.Errorf(codes.InvalidArgument,
			"compare %d lines with %d: the limit is %d: use holdfast plan get -o yaml and a diff tool",
			len(x), len(y), mostLines)
	}
	// common[i][j] is the length of the longest common subsequence of x[i:] and y[j:].
	common := make([][]uint16, len(x)+1)
	for i := range common {
		common[i] = make([]uint16, len(y)+1)
	}
	for i := range slices.Backward(x) {
		for j := range slices.Backward(y) {
			if x[i] == y[j] {
				common[i][j] = common[i+1][j+1] + 1
				continue
			}
			common[i][j] = max(common[i+1][j], common[i][j+1])
		}
	}
	var all []DiffLine
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			all = append(all, DiffLine{"d-both", " ", x[i]})
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			all = append(all, DiffLine{"d-out", "−", x[i]})
			i++
		default:
			all = append(all, DiffLine{"d-in", "+", y[j]})
			j++
		}
	}
	return all, nil
}
