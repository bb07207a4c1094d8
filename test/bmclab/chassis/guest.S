# The operating system of a lab machine, in one sector: firmware loads it from a disk, a CD or the network, which FROM says. It tells so on the
# serial line, answers a return with a prompt, and powers off when the power button is pressed (ACPI 6.5 §4.8.3.1, PM1 status, enable and
# control registers; SeaBIOS puts them at 0x600).
	.set COM1, 0x3f8
	.set COM1_LSR, 0x3fd
	.set PM1_STATUS, 0x600
	.set PM1_ENABLE, 0x602
	.set PM1_CONTROL, 0x604
	.set PWRBTN, 0x100
	.set SLP_EN, 0x2000		# with SLP_TYP 0, which is S5 here

	.code16
	.globl _start
_start:
	ljmp $0, $start
start:
	xorw %ax, %ax
	movw %ax, %ds
	movw %ax, %ss
	movw $0x7c00, %sp
	cld
	movw $PM1_ENABLE, %dx
	movw $PWRBTN, %ax
	outw %ax, %dx
	movw $up, %si
	call print
again:
	sti
	hlt				# until the timer ticks
	movw $PM1_STATUS, %dx
	inw %dx, %ax
	testw $PWRBTN, %ax
	jnz off
	movw $COM1_LSR, %dx
	inb %dx, %al
	testb $1, %al
	jz again
	movw $COM1, %dx
	inb %dx, %al
	outb %al, %dx
	cmpb $'\r', %al
	je ask
	cmpb $'\n', %al
	jne again
ask:
	movw $login, %si
	call print
	jmp again
off:
	movw $down, %si
	call print
	movw $PM1_CONTROL, %dx
	movw $SLP_EN, %ax
	outw %ax, %dx
	hlt

print:
	lodsb
	testb %al, %al
	jz printed
	movb %al, %ah
busy:
	movw $COM1_LSR, %dx
	inb %dx, %al
	testb $0x20, %al
	jz busy
	movb %ah, %al
	movw $COM1, %dx
	outb %al, %dx
	jmp print
printed:
	ret

up:
	.ascii "\r\nup from "
	.ascii FROM
login:
	.asciz "\r\nlogin: "
down:
	.asciz "\r\ndown\r\n"
	.org 510
	.byte 0x55, 0xaa
