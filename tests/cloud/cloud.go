// Package cloud is Berth's local cloud tier: template.yaml, deployed unchanged to an emulator of AWS that enforces
// every function's role, with the functions' real binaries and the simulated fleet in a process of its own. `make
// local` and the end-to-end tests run the same one.
package cloud

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"berth/cmd/berth/installation"
	"berth/tests/ministack"
)

// Version is one version of the installation.
type Version struct {
	// Code is where [Build] has put the functions, Source the folder with template.yaml and what that includes, this
	// project's root where empty.
	Code, Source string
}

// Options say how to run the tier. The zero value of each field is the default.
type Options struct {
	// Version is what is deployed at first.
	Version
	// Berth is the command that `berth fleet` is run by.
	Berth string
	// Parameters override those of [Parameters].
	Parameters map[string]string
	// FleetArguments are added to `berth fleet`.
	FleetArguments []string
	// Tap, if any, sees what functions and fleet call.
	Tap *Tap
	// Log gets what the emulator, its functions and the fleet print; nil drops it.
	Log io.Writer
}

// Cloud is a running tier.
type Cloud struct {
	// Endpoint is the emulator's, API is Berth's ECS API there, Fleet is the fleet's.
	Endpoint, API, SimulatedAWS string
	// Resources are the physical ids of the stack's resources, by logical id.
	Resources map[string]string

	options  Options
	root     string
	emulator *ministack.Server
	fleet    *exec.Cmd
	version  int
	callers  map[string]string // functions by access key
}

// Parameters are the stack's parameters on an emulator: the fleet's source, no TLS on loopback, and functions built for
// this machine. Nobody pays for invocations here, so batches do not wait for company.
func Parameters() map[string]string {
	return map[string]string{
		"EventSources": installation.FleetSource, "AlarmSources": installation.FleetSource,
		"ScalingSources": installation.FleetSource, "DeletionProtection": "false", "RequireTLS": "false",
		"Architecture": architecture(), "BatchWindow": "0",
	}
}

// Start brings the tier up. Everything ends with [Cloud.Close], and with this process.
func Start(ctx context.Context, o Options) (*Cloud, error) {
	root, err := ministack.ProjectRoot()
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	c := &Cloud{options: o, root: root}
	if err := c.startAll(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// startAll takes the emulator's port first: the fleet reports there, and the emulator's functions call the fleet.
func (c *Cloud) startAll(ctx context.Context) error {
	port, err := ministack.FreePort()
	if err != nil {
		return err
	}
	// Functions and fleet call the emulator here.
	aws := fmt.Sprintf("http://127.0.0.1:%d", port)
	if c.options.Tap != nil {
		if aws, err = c.options.Tap.serveProxy(aws); err != nil {
			return fmt.Errorf("starting the tap: %w", err)
		}
	}
	if err := c.startFleet(ctx, aws); err != nil {
		return fmt.Errorf("starting berth fleet: %w", err)
	}
	ecs := c.SimulatedAWS
	if c.options.Tap != nil {
		if ecs, err = c.options.Tap.serveProxy(ecs); err != nil {
			return fmt.Errorf("starting the tap: %w", err)
		}
	}
	c.emulator, err = ministack.Start(ctx, ministack.Options{
		EnforceIAM: true, Port: port, CallBack: aws, Log: c.options.Log, Environment: fleetEndpoints(ecs),
	})
	if err != nil {
		return err
	}
	c.Endpoint = c.emulator.Endpoint
	return c.Deploy(ctx, c.options.Version)
}

// Deploy deploys a version; it updates the stack where there is one. Parameters that its template does not have are left
// out.
func (c *Cloud) Deploy(ctx context.Context, v Version) error {
	if v.Source == "" {
		v.Source = c.root
	}
	action := "UpdateStack"
	if c.version == 0 {
		action = "CreateStack"
	}
	c.version++
	aws := caller{endpoint: c.Endpoint}
	template, err := readTemplate(v.Source)
	if err != nil {
		return err
	}
	folders := functionFolders(template)
	packed, err := aws.packTemplate(ctx, template, v, fmt.Sprintf("v%d", c.version))
	if err != nil {
		return fmt.Errorf("packing template.yaml: %w", err)
	}
	parameters := map[string]string{}
	for _, some := range []map[string]string{Parameters(), c.options.Parameters} {
		for k, value := range some {
			if memberOf(memberOf(template.Content[0], "Parameters"), k) != nil {
				parameters[k] = value
			}
		}
	}
	outputs, err := aws.deployStack(ctx, action, packed, parameters)
	if err != nil {
		return err
	}
	// The emulator serves function URLs at a path as well, which needs no name service.
	id, _, _ := strings.Cut(strings.TrimPrefix(outputs["ApiUrl"], "https://"), ".")
	c.API = c.Endpoint + "/_aws/lambda-url/" + id + "/"
	if c.Resources, err = aws.resourceIDs(ctx); err != nil {
		return err
	}
	c.callers = map[string]string{}
	for _, folder := range folders {
		c.callers[c.sessionOf(folder).AccessKeyID] = folder
	}
	return nil
}

func (c *Cloud) startFleet(ctx context.Context, endpoint string) error {
	args := append([]string{"fleet", "--listen", "127.0.0.1:0", "--account", ministack.Account, "--region", ministack.Region}, c.options.FleetArguments...)
	cmd := exec.Command(c.options.Berth, args...) //nolint:gosec // our own
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID="+rootUser.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY="+rootUser.SecretAccessKey, "AWS_CONFIG_FILE="+os.DevNull)
	cmd.Stderr = c.options.Log
	detachProcess(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.fleet = cmd
	for in := bufio.NewScanner(stdout); in.Scan(); {
		if at := strings.Index(in.Text(), "http://"); at >= 0 {
			c.SimulatedAWS = in.Text()[at:]
			return nil
		}
	}
	return errors.New("it does not say where it is")
}

// Close takes everything down.
func (c *Cloud) Close() error {
	var failed []error
	if c.fleet != nil {
		failed = append(failed, c.fleet.Process.Signal(os.Interrupt))
		timer := time.AfterFunc(10*time.Second, func() { _ = c.fleet.Process.Kill() })
		if err := c.fleet.Wait(); err != nil {
			failed = append(failed, fmt.Errorf("ending berth fleet: %w", err))
		}
		timer.Stop()
	}
	if c.emulator != nil {
		failed = append(failed, c.emulator.Stop())
	}
	if c.options.Tap != nil {
		failed = append(failed, c.options.Tap.stopServing())
	}
	return errors.Join(failed...)
}

// BuildAll builds the functions and the berth command into dir and gives the options that name them.
func BuildAll(ctx context.Context, dir string, mode BuildMode) (Options, error) {
	root, err := ministack.ProjectRoot()
	if err != nil {
		return Options{}, err
	}
	o := Options{Version: Version{Code: filepath.Join(dir, "functions")}, Berth: filepath.Join(dir, "berth")}
	if err := BuildFunctions(ctx, root, o.Code, mode); err != nil {
		return Options{}, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", o.Berth, "./cmd/berth")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return Options{}, fmt.Errorf("building berth: %w\n%s", err, out)
	}
	return o, nil
}
