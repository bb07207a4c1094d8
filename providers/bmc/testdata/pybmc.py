#!/usr/bin/python3
# pybmc.py DIR PORT: an IPMI 2.0 (RMCP+) BMC on pyghmi's server. Unlike ipmi_sim it keeps the persistent and EFI bits of the boot flags.
# Its machine is the files DIR/power (0 or 1), DIR/boots (how often it was turned on) and DIR/log (what was done).
import sys
import pyghmi.ipmi.bmc as bmc
D, PORT = sys.argv[1], int(sys.argv[2])
def get(f):
    with open(D + '/' + f) as x: return x.read().strip()
def put(f, v):
    with open(D + '/' + f, 'w') as x: x.write(str(v))
def did(what):
    with open(D + '/log', 'a') as x: x.write(what + '\n')
class B(bmc.Bmc):
    flags = bytearray(5)
    def cold_reset(self):
        did('mc reset')
        return 0
    def get_power_state(self): return int(get('power'))
    def power_on(self):
        did('power 1')
        if get('power') == '0': put('boots', int(get('boots')) + 1)
        put('power', 1)
        return 0
    def power_off(self):
        did('power 0')
        put('power', 0)
        return 0
    def power_shutdown(self):
        did('shutdown 1')
        put('power', 0)
        return 0
    def set_system_boot_options(self, req, session):
        d = req['data']
        if d[0] == 5:
            did('boot ' + bytes(d[1:3]).hex())
            B.flags = bytearray(d[1:6])
        session.send_ipmi_response()
    def get_system_boot_options(self, req, session):
        if req['data'][0] != 5:
            return session.send_ipmi_response(code=0x80)
        session.send_ipmi_response(data=[1, 5] + list(B.flags))
b = B({'admin': 'secret'}, port=PORT, address='127.0.0.1')
print('ready', flush=True)
b.listen()
