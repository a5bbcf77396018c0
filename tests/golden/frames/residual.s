tasor_timed_kernel:
	push rbp
	mov rbp, rsp
	sub rsp, 1120
	and rsp, -64
	mov rax, [rdi + 0]
	mov qword ptr [rbp - 48], rax
	mov rax, [rdi + 8]
	mov qword ptr [rbp - 56], rax
	mov rax, [rdi + 16]
	mov qword ptr [rbp - 64], rax
	mov rax, [rdi + 24]
	mov qword ptr [rbp - 72], rax
	mov rax, [rdi + 32]
	mov qword ptr [rbp - 80], rax
	mov qword ptr [rbp - 88], 0
.Ltasor_timed_kernel_1:
	mov rax, 3
	cmp qword ptr [rbp - 88], rax
	jge .Ltasor_timed_kernel_2
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 8
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 96], rax
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 64
	mov rcx, qword ptr [rbp - 80]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 112], rax
	mov rdi, qword ptr [rbp - 96]
	mov rsi, 30
	mov rdx, qword ptr [rbp - 112]
	mov rcx, 8
	call tasor_transpose_whole_8x8_f32@PLT
	inc qword ptr [rbp - 88]
	jmp .Ltasor_timed_kernel_1
.Ltasor_timed_kernel_2:
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + 96]
	mov qword ptr [rbp - 88], rax
	mov rcx, qword ptr [rbp - 80]
	lea rax, [rcx + 768]
	mov qword ptr [rbp - 112], rax
	mov rdi, qword ptr [rbp - 88]
	mov rsi, 30
	mov rdx, 8
	mov rcx, qword ptr [rbp - 112]
	mov r8, 8
	mov r9, 6
	call tasor_transpose_8x8_f32@PLT
	mov qword ptr [rbp - 88], 0
.Ltasor_timed_kernel_3:
	mov rax, 6
	cmp qword ptr [rbp - 88], rax
	jge .Ltasor_timed_kernel_4
	mov qword ptr [rbp - 96], 0
.Ltasor_timed_kernel_5:
	mov rax, 3
	cmp qword ptr [rbp - 96], rax
	jge .Ltasor_timed_kernel_6
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 3
	add rax, qword ptr [rbp - 96]
	and rax, 7
	imul rax, rax, 30
	mov qword ptr [rbp - 104], rax
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 3
	add rax, qword ptr [rbp - 96]
	shr rax, 3
	imul rax, rax, 16
	add rax, qword ptr [rbp - 104]
	add rax, 253
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + rax * 4 + 0]
	prefetcht0 [rax]
	inc qword ptr [rbp - 96]
	jmp .Ltasor_timed_kernel_5
.Ltasor_timed_kernel_6:
	lea rax, [rsp + 512]
	mov qword ptr [rbp - 96], rax
	mov rax, qword ptr [rbp - 64]
	imul rcx, qword ptr [rbp - 88], 24
	add rax, rcx
	mov qword ptr [rbp - 104], rax
	mov rax, qword ptr [rbp - 72]
	imul rcx, qword ptr [rbp - 88], 24
	add rax, rcx
	mov qword ptr [rbp - 112], rax
	mov rax, qword ptr [rbp - 56]
	imul rcx, qword ptr [rbp - 88], 720
	add rax, rcx
	mov qword ptr [rbp - 120], rax
	vxorps ymm0, ymm0, ymm0
	vxorps ymm1, ymm1, ymm1
	vxorps ymm2, ymm2, ymm2
	vxorps ymm3, ymm3, ymm3
	vxorps ymm4, ymm4, ymm4
	vxorps ymm5, ymm5, ymm5
	mov rax, qword ptr [rbp - 104]
	mov qword ptr [rbp - 128], rax
	mov rax, qword ptr [rbp - 112]
	mov qword ptr [rbp - 136], rax
	mov rax, qword ptr [rbp - 80]
	mov qword ptr [rbp - 144], rax
	mov rax, qword ptr [rbp - 120]
	mov qword ptr [rbp - 152], rax
	mov qword ptr [rbp - 160], 0
.Ltasor_timed_kernel_7:
	mov rsi, qword ptr [rbp - 128]
	prefetcht0 [rsi + 0]
	prefetcht0 [rsi + 20]
	prefetcht0 [rsi + 160]
	prefetcht0 [rsi + 180]
	mov rdi, qword ptr [rbp - 136]
	prefetcht0 [rdi + 0]
	prefetcht0 [rdi + 20]
	prefetcht0 [rdi + 160]
	prefetcht0 [rdi + 180]
	mov rsi, qword ptr [rbp - 152]
	mov rdi, qword ptr [rbp - 144]
	mov r8, 5
	.p2align 4
.Ltasor_timed_kernel_9:
	vmovups ymm6, [rdi + 0]
	vbroadcastss ymm7, dword ptr [rsi + 0]
	vfmadd231ps ymm0, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 4]
	vfmadd231ps ymm1, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 8]
	vfmadd231ps ymm2, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 12]
	vfmadd231ps ymm3, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 16]
	vfmadd231ps ymm4, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 20]
	vfmadd231ps ymm5, ymm7, ymm6
	add rdi, 32
	add rsi, 24
	dec r8
	jne .Ltasor_timed_kernel_9
.Ltasor_timed_kernel_10:
	add qword ptr [rbp - 128], 320
	add qword ptr [rbp - 136], 320
	add qword ptr [rbp - 144], 160
	add qword ptr [rbp - 152], 120
	inc qword ptr [rbp - 160]
	cmp qword ptr [rbp - 160], 6
	jl .Ltasor_timed_kernel_7
.Ltasor_timed_kernel_8:
	mov rsi, qword ptr [rbp - 96]
	vmovups [rsi + 0], ymm0
	vmovups [rsi + 32], ymm1
	vmovups [rsi + 64], ymm2
	vmovups [rsi + 96], ymm3
	vmovups [rsi + 128], ymm4
	vmovups [rsi + 160], ymm5
	mov rsi, qword ptr [rbp - 96]
	mov rdi, 6
	.p2align 4
.Ltasor_timed_kernel_11:
	vbroadcastss ymm0, dword ptr [rip + .Ltasor_timed_kernel_13]
	vmulps ymm0, ymm0, [rsi + 0]
	vmovups [rsi + 0], ymm0
	add rsi, 32
	dec rdi
	jne .Ltasor_timed_kernel_11
.Ltasor_timed_kernel_12:
	lea rax, [rsp + 704]
	mov qword ptr [rbp - 104], rax
	mov rdi, qword ptr [rbp - 96]
	mov rsi, 8
	mov rdx, 6
	mov rcx, qword ptr [rbp - 104]
	mov r8, 6
	mov r9, 8
	call tasor_transpose_8x8_f32@PLT
	mov rax, qword ptr [rbp - 64]
	imul rcx, qword ptr [rbp - 88], 24
	add rax, rcx
	mov qword ptr [rbp - 112], rax
	mov rax, qword ptr [rbp - 72]
	imul rcx, qword ptr [rbp - 88], 24
	add rax, rcx
	mov qword ptr [rbp - 120], rax
	vmovups ymm0, [rip + .Ltasor_timed_kernel_14]
	mov rsi, qword ptr [rbp - 104]
	mov rdi, qword ptr [rbp - 112]
	mov r8, qword ptr [rbp - 120]
	mov r9, 8
	.p2align 4
.Ltasor_timed_kernel_15:
	vmaskmovps ymm1, ymm0, [rsi + 0]
	vmaskmovps ymm2, ymm0, [rdi + 0]
	vaddps ymm1, ymm1, ymm2
	vmovups [r8 + 0], xmm1
	vextractf128 xmm2, ymm1, 1
	vmovlps qword ptr [r8 + 16], xmm2
	add rsi, 24
	add rdi, 160
	add r8, 160
	dec r9
	jne .Ltasor_timed_kernel_15
.Ltasor_timed_kernel_16:
	inc qword ptr [rbp - 88]
	jmp .Ltasor_timed_kernel_3
.Ltasor_timed_kernel_4:
	mov qword ptr [rbp - 88], 0
.Ltasor_timed_kernel_17:
	mov rax, 3
	cmp qword ptr [rbp - 88], rax
	jge .Ltasor_timed_kernel_18
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 30
	add rax, 345
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + rax * 4 + 0]
	prefetcht0 [rax]
	inc qword ptr [rbp - 88]
	jmp .Ltasor_timed_kernel_17
.Ltasor_timed_kernel_18:
	lea rax, [rsp + 512]
	mov qword ptr [rbp - 88], rax
	vxorps ymm0, ymm0, ymm0
	vxorps ymm1, ymm1, ymm1
	vxorps ymm2, ymm2, ymm2
	vxorps ymm3, ymm3, ymm3
	mov rax, qword ptr [rbp - 64]
	mov qword ptr [rbp - 96], rax
	mov rax, qword ptr [rbp - 72]
	mov qword ptr [rbp - 104], rax
	mov rax, qword ptr [rbp - 80]
	mov qword ptr [rbp - 112], rax
	mov rax, qword ptr [rbp - 56]
	mov qword ptr [rbp - 120], rax
	mov qword ptr [rbp - 128], 0
.Ltasor_timed_kernel_19:
	mov rsi, qword ptr [rbp - 96]
	prefetcht0 [rsi + 144]
	prefetcht0 [rsi + 156]
	prefetcht0 [rsi + 304]
	prefetcht0 [rsi + 316]
	mov rdi, qword ptr [rbp - 104]
	prefetcht0 [rdi + 144]
	prefetcht0 [rdi + 156]
	prefetcht0 [rdi + 304]
	prefetcht0 [rdi + 316]
	mov rsi, qword ptr [rbp - 120]
	mov rdi, qword ptr [rbp - 112]
	mov r8, 5
	.p2align 4
.Ltasor_timed_kernel_21:
	vmovups ymm4, [rdi + 0]
	vbroadcastss ymm5, dword ptr [rsi + 4320]
	vfmadd231ps ymm0, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rsi + 4324]
	vfmadd231ps ymm1, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rsi + 4328]
	vfmadd231ps ymm2, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rsi + 4332]
	vfmadd231ps ymm3, ymm5, ymm4
	add rdi, 32
	add rsi, 24
	dec r8
	jne .Ltasor_timed_kernel_21
.Ltasor_timed_kernel_22:
	add qword ptr [rbp - 96], 320
	add qword ptr [rbp - 104], 320
	add qword ptr [rbp - 112], 160
	add qword ptr [rbp - 120], 120
	inc qword ptr [rbp - 128]
	cmp qword ptr [rbp - 128], 6
	jl .Ltasor_timed_kernel_19
.Ltasor_timed_kernel_20:
	mov rsi, qword ptr [rbp - 88]
	vmovups [rsi + 0], ymm0
	vmovups [rsi + 32], ymm1
	vmovups [rsi + 64], ymm2
	vmovups [rsi + 96], ymm3
	mov rsi, qword ptr [rbp - 88]
	mov rdi, 4
	.p2align 4
.Ltasor_timed_kernel_23:
	vbroadcastss ymm0, dword ptr [rip + .Ltasor_timed_kernel_25]
	vmulps ymm0, ymm0, [rsi + 0]
	vmovups [rsi + 0], ymm0
	add rsi, 32
	dec rdi
	jne .Ltasor_timed_kernel_23
.Ltasor_timed_kernel_24:
	lea rax, [rsp + 640]
	mov qword ptr [rbp - 96], rax
	mov rdi, qword ptr [rbp - 88]
	mov rsi, 8
	mov rdx, 4
	mov rcx, qword ptr [rbp - 96]
	mov r8, 4
	mov r9, 8
	call tasor_transpose_4x8_f32@PLT
	vmovups ymm0, [rip + .Ltasor_timed_kernel_26]
	mov rsi, qword ptr [rbp - 96]
	mov rdi, qword ptr [rbp - 64]
	mov r8, qword ptr [rbp - 72]
	mov r9, 8
	.p2align 4
.Ltasor_timed_kernel_27:
	vmaskmovps ymm1, ymm0, [rsi + 0]
	vmaskmovps ymm2, ymm0, [rdi + 144]
	vaddps ymm1, ymm1, ymm2
	vmovups [r8 + 144], xmm1
	add rsi, 16
	add rdi, 160
	add r8, 160
	dec r9
	jne .Ltasor_timed_kernel_27
.Ltasor_timed_kernel_28:
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + 960]
	mov qword ptr [rbp - 96], rax
	mov rdi, qword ptr [rbp - 80]
	mov rsi, qword ptr [rbp - 96]
	mov rdx, 1
	mov rcx, 30
	mov r8, 8
	call tasor_part_e71b22ee756ce53b@PLT
	mov rcx, qword ptr [rbp - 80]
	lea rax, [rcx + 4]
	mov qword ptr [rbp - 88], rax
	mov rdi, qword ptr [rbp - 88]
	mov rsi, 30
	mov rdx, 8
	call tasor_part_742023773494c035@PLT
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + 0]
	mov [rsp + 0], rax
	mov rcx, qword ptr [rbp - 72]
	lea rax, [rcx + 0]
	mov [rsp + 8], rax
	mov rcx, qword ptr [rbp - 80]
	lea rax, [rcx + 0]
	mov [rsp + 16], rax
	mov rcx, qword ptr [rbp - 56]
	lea rax, [rcx + 4320]
	mov [rsp + 24], rax
	mov rcx, qword ptr [rbp - 72]
	lea rax, [rcx + 1424]
	mov [rsp + 32], rax
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + 1424]
	mov [rsp + 40], rax
	mov rax, 320
	mov [rsp + 48], rax
	mov rax, 320
	mov [rsp + 56], rax
	mov rax, 356
	mov [rsp + 64], rax
	mov rax, 356
	mov [rsp + 72], rax
	mov rcx, qword ptr [rbp - 72]
	lea rax, [rcx + 1280]
	mov qword ptr [rbp - 120], rax
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + 1280]
	mov qword ptr [rbp - 128], rax
	mov rdi, qword ptr [rbp - 64]
	mov rsi, qword ptr [rbp - 72]
	mov rdx, qword ptr [rbp - 80]
	mov rcx, qword ptr [rbp - 56]
	mov r8, qword ptr [rbp - 120]
	mov r9, qword ptr [rbp - 128]
	call tasor_part_3bd8879d45539df3@PLT
	vzeroupper
	leave
	ret
	.balign 4
.Ltasor_timed_kernel_13:
	.long 0x3F000000
	.balign 32
.Ltasor_timed_kernel_14:
	.long 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0x0, 0x0
	.balign 4
.Ltasor_timed_kernel_25:
	.long 0x3F000000
	.balign 32
.Ltasor_timed_kernel_26:
	.long 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0x0, 0x0, 0x0, 0x0
	.intel_syntax noprefix
	.text
	.globl tasor_part_3bd8879d45539df3
	.type tasor_part_3bd8879d45539df3, @function
	.p2align 4
tasor_part_3bd8879d45539df3:
	push rbp
	mov rbp, rsp
	sub rsp, 648
	and rsp, -64
	mov qword ptr [rbp - 48], rdi
	mov qword ptr [rbp - 56], rsi
	mov qword ptr [rbp - 64], rdx
	mov qword ptr [rbp - 72], rcx
	mov qword ptr [rbp - 80], r8
	mov qword ptr [rbp - 88], r9
	lea rax, [rsp + 0]
	mov qword ptr [rbp - 96], rax
	lea rax, [rsp + 192]
	mov qword ptr [rbp - 104], rax
	mov rax, qword ptr [rbp - 48]
	imul rcx, qword ptr [rbp + 64], 4
	add rax, rcx
	mov qword ptr [rbp - 112], rax
	mov rax, qword ptr [rbp - 56]
	imul rcx, qword ptr [rbp + 72], 4
	add rax, rcx
	mov qword ptr [rbp - 120], rax
	mov rax, qword ptr [rbp + 16]
	imul rcx, qword ptr [rbp + 80], 4
	add rax, rcx
	mov qword ptr [rbp - 128], rax
	mov rax, qword ptr [rbp + 24]
	imul rcx, qword ptr [rbp + 88], 4
	add rax, rcx
	mov qword ptr [rbp - 136], rax
	mov rax, qword ptr [rbp - 112]
	mov qword ptr [rbp - 144], rax
	mov rax, qword ptr [rbp - 120]
	mov qword ptr [rbp - 152], rax
	mov rax, qword ptr [rbp - 72]
	mov qword ptr [rbp - 160], rax
	mov rax, qword ptr [rbp - 88]
	mov qword ptr [rbp - 168], rax
	mov rax, qword ptr [rbp - 80]
	mov qword ptr [rbp - 176], rax
	mov qword ptr [rbp - 184], 0
.Ltasor_part_3bd8879d45539df3_1:
	vxorps ymm0, ymm0, ymm0
	vxorps ymm1, ymm1, ymm1
	vxorps ymm2, ymm2, ymm2
	vxorps ymm3, ymm3, ymm3
	vxorps ymm4, ymm4, ymm4
	vxorps ymm5, ymm5, ymm5
	mov rax, qword ptr [rbp - 144]
	mov qword ptr [rbp - 192], rax
	mov rax, qword ptr [rbp - 152]
	mov qword ptr [rbp - 200], rax
	mov rax, qword ptr [rbp - 64]
	mov qword ptr [rbp - 208], rax
	mov rax, qword ptr [rbp - 160]
	mov qword ptr [rbp - 216], rax
	mov qword ptr [rbp - 224], 0
.Ltasor_part_3bd8879d45539df3_3:
	mov rsi, qword ptr [rbp - 192]
	mov rdi, 1
	.p2align 4
.Ltasor_part_3bd8879d45539df3_5:
	prefetcht0 [rsi + 0]
	add rsi, 4
	dec rdi
	jne .Ltasor_part_3bd8879d45539df3_5
.Ltasor_part_3bd8879d45539df3_6:
	mov rsi, qword ptr [rbp - 200]
	mov rdi, 1
	.p2align 4
.Ltasor_part_3bd8879d45539df3_7:
	prefetcht0 [rsi + 0]
	add rsi, 4
	dec rdi
	jne .Ltasor_part_3bd8879d45539df3_7
.Ltasor_part_3bd8879d45539df3_8:
	mov rsi, qword ptr [rbp - 216]
	mov rdi, qword ptr [rbp - 208]
	mov r8, 5
	.p2align 4
.Ltasor_part_3bd8879d45539df3_9:
	vmovups ymm6, [rdi + 0]
	vbroadcastss ymm7, dword ptr [rsi + 0]
	vfmadd231ps ymm0, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 4]
	vfmadd231ps ymm1, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 8]
	vfmadd231ps ymm2, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 12]
	vfmadd231ps ymm3, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 16]
	vfmadd231ps ymm4, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rsi + 20]
	vfmadd231ps ymm5, ymm7, ymm6
	add rdi, 32
	add rsi, 24
	dec r8
	jne .Ltasor_part_3bd8879d45539df3_9
.Ltasor_part_3bd8879d45539df3_10:
	add qword ptr [rbp - 192], 4
	add qword ptr [rbp - 200], 4
	add qword ptr [rbp - 208], 160
	add qword ptr [rbp - 216], 120
	inc qword ptr [rbp - 224]
	cmp qword ptr [rbp - 224], 6
	jl .Ltasor_part_3bd8879d45539df3_3
.Ltasor_part_3bd8879d45539df3_4:
	mov rsi, qword ptr [rbp - 96]
	vmovups [rsi + 0], ymm0
	vmovups [rsi + 32], ymm1
	vmovups [rsi + 64], ymm2
	vmovups [rsi + 96], ymm3
	vmovups [rsi + 128], ymm4
	vmovups [rsi + 160], ymm5
	mov rsi, qword ptr [rbp - 96]
	mov rdi, qword ptr [rbp - 168]
	mov r8, qword ptr [rbp - 176]
	mov r9, 6
	.p2align 4
.Ltasor_part_3bd8879d45539df3_11:
	vbroadcastss ymm0, dword ptr [rsi + 0]
	vbroadcastss ymm1, dword ptr [rip + .Ltasor_part_3bd8879d45539df3_13]
	vmulps ymm0, ymm0, ymm1
	vbroadcastss ymm1, dword ptr [rdi + 0]
	vaddps ymm0, ymm0, ymm1
	vextractps dword ptr [r8 + 0], xmm0, 0
	add rsi, 32
	add rdi, 4
	add r8, 4
	dec r9
	jne .Ltasor_part_3bd8879d45539df3_11
.Ltasor_part_3bd8879d45539df3_12:
	add qword ptr [rbp - 144], 24
	add qword ptr [rbp - 152], 24
	add qword ptr [rbp - 160], 720
	add qword ptr [rbp - 168], 24
	add qword ptr [rbp - 176], 24
	inc qword ptr [rbp - 184]
	cmp qword ptr [rbp - 184], 6
	jl .Ltasor_part_3bd8879d45539df3_1
.Ltasor_part_3bd8879d45539df3_2:
	vxorps ymm0, ymm0, ymm0
	vxorps ymm1, ymm1, ymm1
	vxorps ymm2, ymm2, ymm2
	vxorps ymm3, ymm3, ymm3
	mov rax, qword ptr [rbp - 128]
	mov qword ptr [rbp - 232], rax
	mov rax, qword ptr [rbp - 136]
	mov qword ptr [rbp - 240], rax
	mov rax, qword ptr [rbp + 32]
	mov qword ptr [rbp - 248], rax
	mov rax, qword ptr [rbp + 40]
	mov qword ptr [rbp - 256], rax
	mov qword ptr [rbp - 264], 0
.Ltasor_part_3bd8879d45539df3_14:
	mov rsi, qword ptr [rbp - 232]
	mov rdi, 1
	.p2align 4
.Ltasor_part_3bd8879d45539df3_16:
	prefetcht0 [rsi + 0]
	add rsi, 4
	dec rdi
	jne .Ltasor_part_3bd8879d45539df3_16
.Ltasor_part_3bd8879d45539df3_17:
	mov rsi, qword ptr [rbp - 240]
	mov rdi, 1
	.p2align 4
.Ltasor_part_3bd8879d45539df3_18:
	prefetcht0 [rsi + 0]
	add rsi, 4
	dec rdi
	jne .Ltasor_part_3bd8879d45539df3_18
.Ltasor_part_3bd8879d45539df3_19:
	mov rsi, qword ptr [rbp - 256]
	mov rdi, qword ptr [rbp - 248]
	mov r8, 6
	.p2align 4
.Ltasor_part_3bd8879d45539df3_20:
	vmovups ymm4, [rdi + 0]
	vbroadcastss ymm5, dword ptr [rsi + 0]
	vfmadd231ps ymm0, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rsi + 4]
	vfmadd231ps ymm1, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rsi + 8]
	vfmadd231ps ymm2, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rsi + 12]
	vfmadd231ps ymm3, ymm5, ymm4
	add rdi, 32
	add rsi, 24
	dec r8
	jne .Ltasor_part_3bd8879d45539df3_20
.Ltasor_part_3bd8879d45539df3_21:
	add qword ptr [rbp - 232], 4
	add qword ptr [rbp - 240], 4
	add qword ptr [rbp - 248], 192
	add qword ptr [rbp - 256], 144
	inc qword ptr [rbp - 264]
	cmp qword ptr [rbp - 264], 5
	jl .Ltasor_part_3bd8879d45539df3_14
.Ltasor_part_3bd8879d45539df3_15:
	mov rsi, qword ptr [rbp - 104]
	vmovups [rsi + 0], ymm0
	vmovups [rsi + 32], ymm1
	vmovups [rsi + 64], ymm2
	vmovups [rsi + 96], ymm3
	mov rsi, qword ptr [rbp - 104]
	mov rdi, qword ptr [rbp + 56]
	mov r8, qword ptr [rbp + 48]
	mov r9, 4
	.p2align 4
.Ltasor_part_3bd8879d45539df3_22:
	vbroadcastss ymm0, dword ptr [rsi + 0]
	vbroadcastss ymm1, dword ptr [rip + .Ltasor_part_3bd8879d45539df3_13]
	vmulps ymm0, ymm0, ymm1
	vbroadcastss ymm1, dword ptr [rdi + 0]
	vaddps ymm0, ymm0, ymm1
	vextractps dword ptr [r8 + 0], xmm0, 0
	add rsi, 32
	add rdi, 4
	add r8, 4
	dec r9
	jne .Ltasor_part_3bd8879d45539df3_22
.Ltasor_part_3bd8879d45539df3_23:
	vzeroupper
	leave
	ret
	.balign 4
.Ltasor_part_3bd8879d45539df3_13:
	.long 0x3F000000

	.globl tasor_part_742023773494c035
	.type tasor_part_742023773494c035, @function
	.p2align 4
tasor_part_742023773494c035:
	push rbp
	mov rbp, rsp
	sub rsp, 136
	and rsp, -64
	mov qword ptr [rbp - 48], rdi
	mov qword ptr [rbp - 56], rsi
	mov qword ptr [rbp - 64], rdx
	imul rax, qword ptr [rbp - 64], 4
	mov qword ptr [rbp - 72], rax
	mov rsi, qword ptr [rbp - 48]
	mov rdi, qword ptr [rbp - 56]
	test rdi, rdi
	jle .Ltasor_part_742023773494c035_2
	.p2align 4
.Ltasor_part_742023773494c035_1:
	vxorps ymm0, ymm0, ymm0
	vmovups [rsi + 0], xmm0
	vextractf128 xmm1, ymm0, 1
	vmovlps qword ptr [rsi + 16], xmm1
	vextractps dword ptr [rsi + 24], xmm1, 2
	add rsi, qword ptr [rbp - 72]
	dec rdi
	jne .Ltasor_part_742023773494c035_1
.Ltasor_part_742023773494c035_2:
	vzeroupper
	leave
	ret

	.section .note.GNU-stack, "", @progbits
