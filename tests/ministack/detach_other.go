//go:build !unix

package ministack

import "os/exec"

func detach(*exec.Cmd) {}
