package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A buildVersion is what the build knows of itself. A build from a checkout has a revision, one by
// `go install` only a version, and a test binary neither.
type buildVersion struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// readBuildVersion returns the version of this program.
func readBuildVersion() buildVersion {
	v := buildVersion{Version: "(devel)"}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version, v.Go = info.Main.Version, info.GoVersion
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				v.Revision = setting.Value
			}
		}
	}
	return v
}

// printLine prints the version on one line. It leaves out what the build does not know.
func (v buildVersion) printLine(w io.Writer) error {
	parts := slices.DeleteFunc([]string{"berth", v.Version, v.Revision, v.Go}, func(s string) bool { return s == "" })
	_, err := fmt.Fprintln(w, strings.Join(parts, " "))
	return err
}

// versionFlag is the flag --version, which prints the version in place of running a command.
type versionFlag bool

// BeforeReset prints the version and ends the command line before it is checked further.
func (versionFlag) BeforeReset(parser *kong.Kong, s *streams) error {
	if err := readBuildVersion().printLine(s.out); err != nil {
		return err
	}
	parser.Exit(0)
	return nil
}

// versionCommand prints what was built.
type versionCommand struct {
	JSON bool `help:"Print JSON."`
}

// Run prints the version and revision of the build, and the Go version.
func (c *versionCommand) Run(s *streams) error {
	v := readBuildVersion()
	if c.JSON {
		return json.NewEncoder(s.out).Encode(v)
	}
	return v.printLine(s.out)
}
