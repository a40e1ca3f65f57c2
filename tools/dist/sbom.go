package main

import (
	"cmp"
	"debug/buildinfo"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// readBuildInfo returns what the Go command has written into a binary.
func readBuildInfo(path string) (*buildinfo.BuildInfo, error) { return buildinfo.ReadFile(path) }

// writeSBOM lists the modules of all binaries as a CycloneDX document. Which modules a binary has
// is read from the binary itself.
func (r *release) writeSBOM(binaries []binary) error {
	modules := map[string]*debug.Module{}
	var program debug.Module
	goVersion := ""
	for _, b := range binaries {
		info, err := readBuildInfo(b.path)
		if err != nil {
			return err
		}
		program, goVersion = info.Main, info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path+"@"+m.Version] = m
		}
	}
	components := []cyclonedx.Component{{
		BOMRef: packageURL("stdlib", goVersion), Type: cyclonedx.ComponentTypeLibrary, Name: "stdlib",
		Version: goVersion, PackageURL: packageURL("stdlib", goVersion),
	}}
	for _, m := range modules {
		c := component(m.Path, m.Version)
		if sum, isSHA256 := strings.CutPrefix(m.Sum, "h1:"); isSHA256 {
			// The checksum of go.sum is over a list of files, and so of no file.
			c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: "h1:" + sum}}
		}
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	document := cyclonedx.NewBOM()
	about := component(program.Path, r.version)
	about.Type = cyclonedx.ComponentTypeApplication
	document.Metadata = &cyclonedx.Metadata{Timestamp: r.made.Format(time.RFC3339), Component: &about}
	document.Components = &components
	return r.create(r.name("_sbom.cdx.json"), func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(document)
	})
}

// component describes a module.
func component(path, version string) cyclonedx.Component {
	url := packageURL(path, version)
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}

// packageURL names a module as the Package URL specification does for Go.
func packageURL(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + strings.ReplaceAll(version, "+", "%2B")
}
