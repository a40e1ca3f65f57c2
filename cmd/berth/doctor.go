package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/doctor"
	"berth/cmd/berth/doctor/account"
	"berth/cmd/berth/doctor/folder"
	"berth/shared/cluster"
)

// errUnwell says that `berth doctor` has found something wrong; the report has said what.
var errUnwell = errors.New("something is wrong with the installation")

// doctorCommand checks an installation on AWS with the caller's credentials, or a data folder. It
// only reads.
type doctorCommand struct {
	Stack      string        `help:"Name of the CloudFormation stack ($BERTH_STACK)." placeholder:"NAME"`
	Profile    string        `help:"Profile of the AWS credentials." placeholder:"NAME"`
	Region     string        `help:"AWS Region of the stack, or of --data (us-east-1)." placeholder:"REGION"`
	Data       string        `help:"Check a data folder, not in use." type:"existingdir" placeholder:"FOLDER"`
	Account    string        `default:"123456789012" help:"With --data: the account id that berth up has."`
	JoinWithin time.Duration `default:"10m" help:"How long a new machine may take to register (1s-24h)."`
	Timeout    time.Duration `default:"2m" help:"How long all checks may take together (1s-1h)."`
	JSON       bool          `help:"Print JSON."`
}

// Validate names the flag that is wrong.
func (c *doctorCommand) Validate() error {
	switch {
	case c.Data != "" && (c.Stack != "" || c.Profile != ""):
		return fmt.Errorf("--data is %q, expected none beside --stack and --profile", c.Data)
	case c.Data != "":
		return nil
	case cmp.Or(c.Stack, os.Getenv("BERTH_STACK")) == "":
		return errors.New("--stack is missing, expected the name of a CloudFormation stack, BERTH_STACK, or --data")
	case c.JoinWithin < time.Second || c.JoinWithin > 24*time.Hour:
		return fmt.Errorf("--join-within is %s, expected 1s to 24h", c.JoinWithin)
	case c.Timeout < time.Second || c.Timeout > time.Hour:
		return fmt.Errorf("--timeout is %s, expected 1s to 1h", c.Timeout)
	}
	return nil
}

// callTimeout bounds each call of `berth doctor`: one that hangs must not hide what the others
// find.
const callTimeout = 15 * time.Second

// Run prints the report. The error is errUnwell if a check fails.
func (c *doctorCommand) Run(ctx context.Context, s *streams) error {
	p := newProgress(s.err, time.Now)
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	report, err := c.examine(bounded, p)
	p.clearReport()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the stack could not be read within --timeout, which is %s", c.Timeout)
	case err != nil:
		return err
	}
	if err := printAnswer(s.out, c.JSON, report); err != nil {
		return err
	}
	if report.Verdict == doctor.Fail {
		return errUnwell
	}
	return nil
}

// examine reads the installation, or the data folder, and judges it.
func (c *doctorCommand) examine(ctx context.Context, p *progress) (*doctor.Report, error) {
	if c.Data != "" {
		found, err := folder.Inspect(c.Data, cluster.Account{ID: c.Account, Region: cmp.Or(c.Region, "us-east-1")})
		if err != nil {
			return nil, err
		}
		return doctor.ExamineFolder(found, time.Now()), nil
	}
	aws, err := client.LoadAWS(ctx, client.Endpoint{Profile: c.Profile, Region: c.Region}, time.Now)
	if err != nil {
		return nil, err
	}
	facts, err := account.Read(ctx, account.Options{Stack: cmp.Or(c.Stack, os.Getenv("BERTH_STACK")), AWS: aws,
		Flags: c.commandFlags(), JoinWithin: c.JoinWithin, CallTimeout: callTimeout,
		Progress: func(done, all int) { p.reportProgress("%d of %d parts of the installation read", done, all) }})
	if err != nil {
		return nil, err
	}
	return doctor.Examine(facts), nil
}

// commandFlags returns the flags with which commands of the AWS CLI reach the same account.
func (c *doctorCommand) commandFlags() (flags string) {
	if c.Profile != "" {
		flags += " --profile " + c.Profile
	}
	if c.Region != "" {
		flags += " --region " + c.Region
	}
	return flags
}
