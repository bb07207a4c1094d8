// Command plot draws the results of `holdfast-bench growth -o json`: how the time of one
// operation grows with the fleet. It reads the report from its standard input and writes an
// SVG file.
//
//	holdfast-bench growth --machines 10000,100000,1000000 -o json |
//	        GOWORK=off go -C tools/plot run . ../../docs/img/growth.svg
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// figure is one figure of a report.
type figure struct {
	ID    string  `json:"id"` // growth.10000.get
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

func main() {
	if err := run(os.Stdin, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: plot FILE.svg")
	}
	var report struct {
		Figures []figure `json:"figures"`
	}
	if err := json.NewDecoder(in).Decode(&report); err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	lines, err := series(report.Figures)
	if err != nil {
		return err
	}
	return draw(lines, args[0])
}

// names returns the figures to draw, and their names in the plot.
func names() map[string]string {
	return map[string]string{
		"get":       "one machine read",
		"page":      "page of 100, filter on a label",
		"rare":      "filter that nothing matches",
		"keepalive": "keepalive of an agent",
		"start":     "run started",
		"stall":     "longest write during a snapshot",
		"save":      "snapshot saved",
		"up":        "follower started",
		"restore":   "snapshot restored",
	}
}

// series returns the lines of the plot, by name: milliseconds by the number of machines.
func series(all []figure) (map[string]plotter.XYs, error) {
	lines := map[string]plotter.XYs{}
	for _, f := range all {
		parts := strings.Split(f.ID, ".")
		if len(parts) != 3 || f.Value <= 0 {
			continue
		}
		name := names()[parts[2]]
		if name == "" {
			continue
		}
		machines, err := strconv.ParseFloat(parts[1], 64)
		if err != nil {
			return nil, fmt.Errorf("read the figure %s: %w", f.ID, err)
		}
		ms := f.Value
		if f.Unit == "s" {
			ms *= 1000
		}
		lines[name] = append(lines[name], plotter.XY{X: machines, Y: ms})
	}
	if len(lines) == 0 {
		return nil, errors.New("the report has no figures of growth: use the report of holdfast-bench growth -o json")
	}
	return lines, nil
}

func draw(lines map[string]plotter.XYs, file string) error {
	p := plot.New()
	p.Title.Text = "What grows with the fleet"
	p.X.Label.Text, p.Y.Label.Text = "machines", "ms"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	var args []any
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		args = append(args, name, lines[name])
	}
	if err := plotutil.AddLinePoints(p, args...); err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	p.Y.Max *= 100 // room for the legend
	p.X.Max *= 1.3 // room for the last number on the axis
	p.Legend.Padding = vg.Millimeter
	if err := p.Save(18*vg.Centimeter, 13*vg.Centimeter, file); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
