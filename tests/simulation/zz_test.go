package simulation
import ("testing";"time";"fmt")
func TestZZ(t *testing.T){
 for seed:=range uint64(30){
  s:=time.Now()
  w,_:=newWorld(Run{Seed:seed}); n:=time.Since(s); w.live()
  c:=w.Runtime.Counters()
  fmt.Printf("%d setup=%v total=%v steps=%d starts=%d actions=%d place=%d rec=%d disp=%d obs=%d\n",seed,n.Round(time.Microsecond*100),time.Since(s).Round(time.Microsecond*100),w.steps,len(w.checker.starts),len(w.Actions),c.Functions["placement"].Invocations,c.Functions["placement"].Records,c.Functions["dispatch"].Invocations,c.Functions["task-state-change"].Invocations)
 }
}
