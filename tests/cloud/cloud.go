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

// A Version is one version of the installation.
type Version struct {
	// Code is the folder that [BuildFunctions] has filled. Source is the folder of template.yaml
	// and its nested templates; the default is this project's root.
	Code, Source string
}

// Options configure the tier. The zero value of each field is the default.
type Options struct {
	// Version is deployed by [Start].
	Version
	// Berth is the path of the berth command, which runs `berth fleet`.
	Berth string
	// Parameters override those of [Parameters].
	Parameters map[string]string
	// FleetArguments are added to `berth fleet`.
	FleetArguments []string
	// Tap, if not nil, sees the calls of the functions and of the simulated AWS. It also refuses
	// calls to the simulated AWS that the functions' roles do not allow: see [Cloud.Authorize].
	Tap *Tap
	// Log gets the output of the emulator, its functions and the simulated AWS. Nil drops it.
	Log io.Writer
}

// A Cloud is a running tier.
type Cloud struct {
	// Endpoint is the URL of the emulator, API of Berth's ECS API there, SimulatedAWS of the
	// simulated AWS.
	Endpoint, API, SimulatedAWS string
	// Resources are the physical ids of the stack's resources, by logical id.
	Resources map[string]string

	options  Options
	root     string
	emulator *ministack.Server
	fleet    *Fleet
	version  int
	roles    roleBook
}

// Parameters returns the stack's parameters on an emulator: the simulated event source, no TLS on
// loopback, functions built for this machine, no batching windows, because invocations cost nothing
// here, and the rights of the root user and of each [Caller].
func Parameters() map[string]string {
	return map[string]string{
		"WriterArns":           strings.Join([]string{RootARN, Writer.ARN(), Operator.ARN()}, ","),
		"NodeGroupManagerArns": strings.Join([]string{RootARN, Manager.ARN(), Operator.ARN()}, ","),
		"LoadReporterArns":     Reporter.ARN(),
		"EventSources":         installation.FleetSource, "AlarmSources": installation.FleetSource,
		"ScalingSources": installation.FleetSource, "DeletionProtection": "false", "RequireTLS": "false",
		"Architecture": architecture(), "BatchWindow": "0",
	}
}

// Start starts the tier. Everything ends with [Cloud.Close], and with this process.
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

// startAll reserves the emulator's port first: the simulated AWS sends events there, and the
// emulator's functions call the simulated AWS.
func (c *Cloud) startAll(ctx context.Context) error {
	port, err := ministack.FreePort()
	if err != nil {
		return err
	}
	// Functions and the simulated AWS call the emulator here.
	aws := fmt.Sprintf("http://127.0.0.1:%d", port)
	if c.options.Tap != nil {
		if aws, err = c.options.Tap.serveProxy(aws, nil); err != nil {
			return fmt.Errorf("starting the tap: %w", err)
		}
	}
	if err := c.startFleet(aws); err != nil {
		return fmt.Errorf("starting berth fleet: %w", err)
	}
	ecs := c.SimulatedAWS
	if c.options.Tap != nil {
		if ecs, err = c.options.Tap.serveProxy(ecs, c.refuseUnauthorized); err != nil {
			return fmt.Errorf("starting the tap: %w", err)
		}
	}
	c.emulator, err = ministack.Start(ctx, ministack.Options{
		EnforceIAM: true, Port: port, CallBack: aws, Log: c.options.Log, Environment: FleetEndpoints(ecs),
	})
	if err != nil {
		return err
	}
	c.Endpoint = c.emulator.Endpoint
	return c.Deploy(ctx, c.options.Version)
}

// Deploy deploys a version, or updates the stack if it exists. It leaves out parameters that the
// version's template does not have.
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
	// The emulator serves function URLs at a path, too, which needs no name resolution.
	id, _, _ := strings.Cut(strings.TrimPrefix(outputs["ApiUrl"], "https://"), ".")
	c.API = c.Endpoint + "/_aws/lambda-url/" + id + "/"
	if c.Resources, err = aws.resourceIDs(ctx); err != nil {
		return err
	}
	callers := map[string]string{}
	for _, folder := range folders {
		callers[c.sessionOf(folder).AccessKeyID] = folder
		if _, err := c.readPolicy(ctx, folder); err != nil {
			return err
		}
	}
	c.roles.setCallers(callers)
	return nil
}

func (c *Cloud) startFleet(endpoint string) (err error) {
	if c.fleet, err = c.launchFleet(endpoint, c.options.FleetArguments); err != nil {
		return err
	}
	c.SimulatedAWS = c.fleet.Endpoint
	return nil
}

// A Fleet is a running `berth fleet`.
type Fleet struct {
	Endpoint string
	cmd      *exec.Cmd
}

// StartFleet starts another simulated AWS beside the tier's own, without instances. It ends with
// [Fleet.Stop], and with this process.
func (c *Cloud) StartFleet() (*Fleet, error) {
	return c.launchFleet(c.Endpoint, []string{"--nodes", "0"})
}

// launchFleet starts `berth fleet`, which sends its events to the endpoint.
func (c *Cloud) launchFleet(endpoint string, more []string) (*Fleet, error) {
	args := append([]string{"fleet", "--listen", "127.0.0.1:0", "--account", ministack.Account, "--region",
		ministack.Region}, more...)
	cmd := exec.Command(c.options.Berth, args...) //nolint:gosec // our own command
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID="+rootUser.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY="+rootUser.SecretAccessKey, "AWS_CONFIG_FILE="+os.DevNull)
	cmd.Stderr = c.options.Log
	detachProcess(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f := &Fleet{cmd: cmd}
	for in := bufio.NewScanner(stdout); in.Scan(); {
		if at := strings.Index(in.Text(), "http://"); at >= 0 {
			f.Endpoint = in.Text()[at:]
			return f, nil
		}
	}
	return nil, errors.Join(errors.New("it does not say where it is"), f.Stop())
}

// Stop ends the simulated AWS and waits for its end.
func (f *Fleet) Stop() error {
	failed := f.cmd.Process.Signal(os.Interrupt)
	timer := time.AfterFunc(10*time.Second, func() { _ = f.cmd.Process.Kill() })
	defer timer.Stop()
	if err := f.cmd.Wait(); err != nil {
		failed = errors.Join(failed, fmt.Errorf("ending berth fleet: %w", err))
	}
	return failed
}

// Close stops everything.
func (c *Cloud) Close() error {
	var failed []error
	if c.fleet != nil {
		failed = append(failed, c.fleet.Stop())
	}
	if c.emulator != nil {
		failed = append(failed, c.emulator.Stop())
	}
	if c.options.Tap != nil {
		failed = append(failed, c.options.Tap.stopServing())
	}
	return errors.Join(failed...)
}

// BuildAll builds the functions and the berth command into dir and returns the options that name
// them.
func BuildAll(ctx context.Context, dir string, mode BuildMode) (Options, error) {
	root, err := ministack.ProjectRoot()
	if err != nil {
		return Options{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil { // commands run in the root
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
