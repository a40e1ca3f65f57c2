package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// writeImage writes a container image for the Linux platforms as one file: an OCI image layout in a
// tar, which `podman load`, `skopeo` and `ctr images import` read. It has the binary, the roots of
// certificates that Mozilla trusts, and nothing else.
func (r *release) writeImage(binaries []binary) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	count := 0
	for _, b := range binaries {
		if b.platform.os != "linux" {
			continue
		}
		image, err := r.makeImage(b)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.platform.os, Architecture: b.platform.arch}},
		})
		count++
	}
	if count == 0 {
		fmt.Fprintln(r.progress, "no image: none of the platforms is Linux")
		return nil
	}
	folder, err := os.MkdirTemp("", "berth-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	// The layout's own index names the image, and the image is one index over the platforms.
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	names := map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "docker.io/library/berth:" + r.tag()}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	entries, err := readFolder(folder)
	if err != nil {
		return err
	}
	return r.create(r.name("_image.tar"), func(w io.Writer) error { return writeTar(w, entries, r.made) })
}

// tag returns the version as file names and tags of images have it: a "+" becomes a "-".
func (r *release) tag() string {
	return strings.ReplaceAll(r.version, "+", "-")
}

// makeImage makes the image of one platform. It runs as a user without rights.
func (r *release) makeImage(b binary) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	var layerTar bytes.Buffer
	entries := []entry{{"berth", 0o755, program}, {"etc/ssl/certs/ca-certificates.crt", 0o644, trustedRoots()}}
	if err := writeTar(&layerTar, entries, r.made); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layerTar.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.platform.os, b.platform.arch, v1.Time{Time: r.made}
	config.History = []v1.History{{Created: v1.Time{Time: r.made}, CreatedBy: "make dist"}}
	config.Config = v1.Config{
		Entrypoint: []string{"/berth"}, User: "65532:65532", WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title": "berth", "org.opencontainers.image.version": r.version,
		},
	}
	return mutate.ConfigFile(image, config)
}

// trustedRoots returns the roots of certificates as PEM.
func trustedRoots() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
	}
	return all.Bytes()
}

// readFolder returns the files below a folder, sorted by name.
func readFolder(folder string) (entries []entry, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		entries = append(entries, entry{filepath.ToSlash(name), 0o644, data})
		return err
	})
	return entries, err
}
